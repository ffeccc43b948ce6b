/* A libcuda.so.1 of our own, with the names that ctypes calls. */
#include "description.h"

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101 };
enum { INTEGRATED = 18, COMPUTE_MODE = 20, MAJOR = 75, MINOR = 76 };

static int initialized;

int cuInit(unsigned flags) {
    int code = fate(__func__, NOBODY);

    (void)flags;
    usleep(number_of(NOBODY, "init_ms", 0) * 1000);
    if (!code && !number_of(NOBODY, "count", 0))
        code = NO_DEVICE;
    initialized = !code;
    return code;
}

int cuDriverGetVersion(int *version) {
    *version = number_of(NOBODY, "cuda_version", 12040);
    return fate(__func__, NOBODY);
}

int cuDeviceGetCount(int *count) {
    int code = fate(__func__, NOBODY);

    if (!code && !initialized)
        code = NOT_INITIALIZED;
    *count = code ? 0 : number_of(NOBODY, "count", 0);
    return code;
}

int cuDeviceGet(int *device, int index) {
    *device = index;
    return index < number_of(NOBODY, "count", 0) ? SUCCESS : INVALID_DEVICE;
}

int cuDeviceGetName(char *name, int size, int device) {
    char value[LONGEST];
    int code = fate(__func__, device);

    snprintf(name, size, "%s", text_of(device, "name", "NVIDIA H100 80GB HBM3", value));
    return code;
}

int cuDeviceGetPCIBusId(char *address, int size, int device) {
    int code = fate(__func__, device);

    snprintf(address, size, "0000:%02X:00.0", (unsigned)number_of(device, "bus", device + 1) & 0xff);
    return code;
}

/* `capability=90` is that of an H100, 9.0. */
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    int capability = number_of(device, "capability", 90);

    switch (attribute) {
    case INTEGRATED: *value = number_of(device, "integrated", 0); break;
    case COMPUTE_MODE: *value = number_of(device, "compute_mode", 0); break;
    case MAJOR: *value = capability / 10; break;
    case MINOR: *value = capability % 10; break;
    default: return INVALID_VALUE;
    }
    return fate(__func__, device);
}

/* What our torch does on a GPU: `3.error.product=719` and so on; `wrong.product=1` makes the result one. */
int fakeCompute(const char *what, int device, int *wrong) {
    char key[LONGEST];

    snprintf(key, sizeof key, "wrong.%s", what);
    *wrong = number_of(device, key, 0);
    return fate(what, device);
}

/* Loading alone can hang or crash too: `hang.load_cuda=1`, `crash.load_cuda=1`. */
__attribute__((constructor)) static void load(void) { fate("load_cuda", NOBODY); }

/* A libcuda.so.1 of our own, with the names that ctypes calls. */
#include "description.h"

enum { SUCCESS = 0, NOT_INITIALIZED = 3, NO_DEVICE = 100 };

static int initialized;

int cuInit(unsigned flags) {
    int code = fate(__func__, NOBODY);

    (void)flags;
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

/* Loading alone can hang or crash too: `hang.load_cuda=1`, `crash.load_cuda=1`. */
__attribute__((constructor)) static void load(void) { fate("load_cuda", NOBODY); }

/* A libnvidia-ml.so.1 of our own, with the names that nvidia-ml-py calls. -DOLD_DRIVER leaves out what old drivers lack. */
#include "description.h"

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, INSUFFICIENT_SIZE = 7, MOST_GPUS = 64 };

typedef struct { int unused; } *Device;
typedef struct { char legacy[16]; unsigned domain, bus, device, device_id, subsystem_id; char address[32]; } Pci;
typedef struct { unsigned long long total, free, used; } Memory;

static char gpus[MOST_GPUS];
static int users;

static int index_of(Device device) { return (int)((char *)device - gpus); }

#define BEGIN(gpu)                          \
    do {                                    \
        int code = fate(__func__, gpu);     \
        if (code) return code;              \
        if (!users) return UNINITIALIZED;   \
    } while (0)

static int copied(char *to, unsigned size, int gpu, const char *key, const char *otherwise) {
    char value[LONGEST];

    text_of(gpu, key, otherwise, value);
    if (strlen(value) >= size)
        return INSUFFICIENT_SIZE;
    strcpy(to, value);
    return SUCCESS;
}

int nvmlInitWithFlags(unsigned flags) {
    int code = fate(__func__, NOBODY);

    (void)flags;
    users += !code;
    return code;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) {
    BEGIN(NOBODY);
    users--;
    return SUCCESS;
}

const char *nvmlErrorString(int code) { return code ? "an error of the fake" : "Success"; }

int nvmlSystemGetDriverVersion(char *version, unsigned size) {
    BEGIN(NOBODY);
    return copied(version, size, NOBODY, "driver_version", "550.90.07");
}

#ifndef OLD_DRIVER
int nvmlSystemGetCudaDriverVersion(int *version) {
    BEGIN(NOBODY);
    *version = number_of(NOBODY, "cuda_version", 12040);
    return SUCCESS;
}

int nvmlDeviceGetMigMode(Device device, unsigned *current, unsigned *pending) {
    BEGIN(index_of(device));
    *current = *pending = number_of(index_of(device), "mig", 0);
    return SUCCESS;
}
#endif

int nvmlDeviceGetCount_v2(unsigned *count) {
    BEGIN(NOBODY);
    *count = number_of(NOBODY, "count", 0);
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *device) {
    BEGIN((int)index);
    if (index >= MOST_GPUS || index >= number_of(NOBODY, "count", 0))
        return INVALID_ARGUMENT;
    *device = (Device)(gpus + index);
    return SUCCESS;
}

int nvmlDeviceGetName(Device device, char *name, unsigned size) {
    BEGIN(index_of(device));
    return copied(name, size, index_of(device), "name", "NVIDIA H100 80GB HBM3");
}

int nvmlDeviceGetUUID(Device device, char *uuid, unsigned size) {
    char own[LONGEST];

    BEGIN(index_of(device));
    snprintf(own, sizeof own, "GPU-%08x-0000-0000-0000-000000000000", index_of(device) + 1);
    return copied(uuid, size, index_of(device), "uuid", own);
}

int nvmlDeviceGetMinorNumber(Device device, unsigned *minor) {
    BEGIN(index_of(device));
    *minor = number_of(index_of(device), "minor", index_of(device));
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(Device device, Pci *pci) {
    BEGIN(index_of(device));
    memset(pci, 0, sizeof *pci);
    pci->bus = number_of(index_of(device), "bus", index_of(device) + 1);
    snprintf(pci->address, sizeof pci->address, "00000000:%02X:00.0", pci->bus & 0xff);
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(Device device, Memory *memory) {
    BEGIN(index_of(device));
    memory->total = number_of(index_of(device), "memory", 85520809984LL);
    memory->used = number_of(index_of(device), "memory_used", 0);
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

/* A libnvidia-ml.so.1 of our own, with the names that nvidia-ml-py calls. -DOLD_DRIVER leaves out what old drivers lack. */
#include <time.h>

#include "description.h"

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    ARGUMENT_VERSION_MISMATCH = 25,
};
enum { MOST_GPUS = 64, MOST_PROCESSES = 32 };

typedef struct { int unused; } *Device;
typedef struct { char legacy[16]; unsigned domain, bus, device, device_id, subsystem_id; char address[32]; } Pci;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory2;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; } Process;
typedef struct { unsigned id, scope; long long timestamp, latency; unsigned type, code; unsigned long long value; } Field;
typedef struct {
    unsigned version;
    unsigned long long aggregate[3], volatile_parity, volatile_secded, volatile_corrected, buckets[5];
    unsigned threshold_exceeded;
} SramErrors;
typedef struct {
    unsigned version;
    unsigned char cluster[16];
    unsigned status, clique, state, health_mask;
    unsigned char health; /* from version 3 on */
} FabricInfo;
typedef struct { unsigned year; unsigned short month, day, hour, minute, second; unsigned char status; } Expiry;
typedef struct { unsigned code, state; char licence[128], product[128]; unsigned enabled; Expiry expiry; } Feature;
typedef struct { int supported; unsigned count; Feature features[3]; } Features;
typedef struct { unsigned environment, feature, tools; } Confidential;

static char gpus[MOST_GPUS];
static int users;

/* Seconds since something that moves was asked for in this process, for the first time. */
static double seconds(void) {
    static struct timespec first;
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!first.tv_sec)
        first = now;
    return now.tv_sec - first.tv_sec + 1e-9 * (now.tv_nsec - first.tv_nsec);
}

/* A number that grows with time: by KEY_per_s. */
static long long growing(int gpu, const char *key, long long otherwise) {
    char rate[LONGEST];

    snprintf(rate, sizeof rate, "%s_per_s", key);
    return number_of(gpu, key, otherwise) + (long long)(seconds() * number_of(gpu, rate, 0));
}

static int counts_time(unsigned id) {
#ifdef OLD_DRIVER
    return id == 74 || id == 76;
#else
    return id == 74 || id == 76 || (id >= 269 && id <= 271);
#endif
}

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
    pci->device_id = number_of(index_of(device), "pci_device_id", 0x233010de);
    pci->subsystem_id = number_of(index_of(device), "pci_subsystem_id", 0x16c110de);
    snprintf(pci->address, sizeof pci->address, "00000000:%02X:00.0", pci->bus & 0xff);
    return SUCCESS;
}

/* Version 1, in which what the driver keeps for itself is used. */
int nvmlDeviceGetMemoryInfo(Device device, Memory *memory) {
    BEGIN(index_of(device));
    memory->total = number_of(index_of(device), "memory", 85520809984LL);
    memory->used = number_of(index_of(device), "memory_used", 0) + number_of(index_of(device), "memory_reserved", 600 << 20);
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

/* Samples of a percentage: `utilisation=90 5 90`, the last one for ever. */
int nvmlDeviceGetUtilizationRates(Device device, Utilization *rates) {
    static unsigned asked[MOST_GPUS];
    char value[LONGEST], *rest = value;

    BEGIN(index_of(device));
    text_of(index_of(device), "utilisation", "0", value);
    for (unsigned number = 0; number <= asked[index_of(device)] && *rest; number++)
        rates->gpu = strtoul(rest, &rest, 10);
    rates->memory = 0;
    asked[index_of(device)]++;
    return SUCCESS;
}

/* Functions that give one number, or two that are the same, by a key. */
#define ONE_NUMBER(function, key, otherwise)                      \
    int function(Device device, unsigned *number) {               \
        BEGIN(index_of(device));                                  \
        *number = number_of(index_of(device), key, otherwise);    \
        return SUCCESS;                                           \
    }
#define TWO_NUMBERS(function, key, otherwise)                                       \
    int function(Device device, unsigned *current, unsigned *pending) {             \
        BEGIN(index_of(device));                                                    \
        *current = *pending = number_of(index_of(device), key, otherwise);          \
        return SUCCESS;                                                             \
    }
ONE_NUMBER(nvmlDeviceGetComputeMode, "compute_mode", 0)
ONE_NUMBER(nvmlDeviceGetPersistenceMode, "persistence", 1)
ONE_NUMBER(nvmlDeviceGetDisplayActive, "display_active", 0)
ONE_NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "slot_gen_max", 5)
ONE_NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "slot_width_max", 16)
ONE_NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power_limit", 700000)
ONE_NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, "power_limit_default", 700000)
TWO_NUMBERS(nvmlDeviceGetEccMode, "ecc", 1)

int nvmlDeviceGetMaxClockInfo(Device device, unsigned type, unsigned *mhz) {
    enum { MEMORY_CLOCK = 2 };

    BEGIN(index_of(device));
    *mhz = type == MEMORY_CLOCK ? number_of(index_of(device), "memory_clock_max", 2619)
                                : number_of(index_of(device), "sm_clock_max", 1980);
    return SUCCESS;
}

int nvmlDeviceGetTemperatureThreshold(Device device, unsigned threshold, unsigned *degrees) {
    BEGIN(index_of(device));
    (void)threshold;
    *degrees = number_of(index_of(device), "slowdown", 87);
    return SUCCESS;
}

int nvmlDeviceGetTotalEccErrors(Device device, unsigned type, unsigned counter, unsigned long long *count) {
    BEGIN(index_of(device));
    (void)counter;
    *count = number_of(index_of(device), type ? "ecc_uncorrected" : "ecc_corrected", 0);
    return SUCCESS;
}

int nvmlDeviceGetMemoryErrorCounter(Device device, unsigned type, unsigned counter, unsigned place, unsigned long long *count) {
    BEGIN(index_of(device));
    (void)type, (void)counter, (void)place;
    *count = number_of(index_of(device), "sram_uncorrected", 0);
    return SUCCESS;
}

/* Up to Turing and Volta: not supported where the description does not say `retired_pages`. */
int nvmlDeviceGetRetiredPages(Device device, unsigned cause, unsigned *count, unsigned long long *addresses) {
    unsigned size = *count;
    long long pages = number_of(index_of(device), "retired_pages", -1);

    BEGIN(index_of(device));
    (void)cause;
    if (pages < 0)
        return NOT_SUPPORTED;
    *count = pages;
    if (!addresses || size < pages)
        return pages ? INSUFFICIENT_SIZE : SUCCESS;
    for (unsigned page = 0; page < pages; page++)
        addresses[page] = page << 12;
    return SUCCESS;
}

int nvmlDeviceGetRetiredPagesPendingStatus(Device device, unsigned *pending) {
    BEGIN(index_of(device));
    if (number_of(index_of(device), "retired_pages", -1) < 0)
        return NOT_SUPPORTED;
    *pending = number_of(index_of(device), "retired_pages_pending", 0);
    return SUCCESS;
}

/* Fields by their numbers in nvml.h: `field.230=1` is the recovery action; not supported where the description has none. Those of
 * clocks that are held down count from 0, and grow with `field.269_per_s`. */
static int field(int gpu, unsigned id, unsigned long long *value) {
    char key[LONGEST];
    long long told;

    snprintf(key, sizeof key, "field.%u", id);
    told = growing(gpu, key, counts_time(id) ? 0 : -1);
    *value = told;
    return told < 0 ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetFieldValues(Device device, int count, Field *fields) {
    enum { UNSIGNED_LONG_LONG = 3 };

    BEGIN(index_of(device));
    for (int place = 0; place < count; place++) {
        fields[place].type = UNSIGNED_LONG_LONG;
        fields[place].code = field(index_of(device), fields[place].id, &fields[place].value);
    }
    return SUCCESS;
}

#ifndef OLD_DRIVER
int nvmlSystemGetCudaDriverVersion(int *version) {
    BEGIN(NOBODY);
    *version = number_of(NOBODY, "cuda_version", 12040);
    return SUCCESS;
}

int nvmlSystemGetConfComputeState(Confidential *state) {
    BEGIN(NOBODY);
    memset(state, 0, sizeof *state);
    state->feature = number_of(NOBODY, "confidential", 0);
    return SUCCESS;
}

TWO_NUMBERS(nvmlDeviceGetMigMode, "mig", 0)
ONE_NUMBER(nvmlDeviceGetMaxMigDeviceCount, "mig_most", 7)
ONE_NUMBER(nvmlDeviceGetVirtualizationMode, "virtualization", 0)
ONE_NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, "link_gen_max", 5)
ONE_NUMBER(nvmlDeviceGetMemoryBusWidth, "memory_bus", 5120)

int nvmlDeviceGetCudaComputeCapability(Device device, int *major, int *minor) {
    int both;

    BEGIN(index_of(device));
    both = number_of(index_of(device), "capability", 90);
    *major = both / 10;
    *minor = both % 10;
    return SUCCESS;
}

/* Instances fill the last places: a gap before them ends nothing. */
int nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned place, Device *instance) {
    BEGIN(index_of(device));
    if (place + number_of(index_of(device), "mig_instances", 0) < number_of(index_of(device), "mig_most", 7))
        return NOT_FOUND;
    *instance = device;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(Device device, Memory2 *memory) {
    BEGIN(index_of(device));
    if (memory->version != (sizeof *memory | 2 << 24))
        return ARGUMENT_VERSION_MISMATCH;
    memory->total = number_of(index_of(device), "memory", 85520809984LL);
    memory->used = number_of(index_of(device), "memory_used", 0);
    memory->reserved = number_of(index_of(device), "memory_reserved", 600 << 20);
    memory->free = memory->total - memory->used - memory->reserved;
    return SUCCESS;
}

/* Processes as `compute=4711:1073741824 4712:0`; without a number of bytes NVML does not know them. */
static int listed(int gpu, const char *key, unsigned *count, Process *processes) {
    char value[LONGEST], *rest = value;
    unsigned size = *count, number = 0;

    text_of(gpu, key, "", value);
    while (*rest && number < MOST_PROCESSES) {
        Process process = {.pid = strtoul(rest, &rest, 10), .memory = -1ULL};

        if (*rest == ':')
            process.memory = strtoull(rest + 1, &rest, 10);
        if (processes && number < size)
            processes[number] = process;
        number++;
    }
    *count = number;
    return number > size ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned *count, Process *processes) {
    BEGIN(index_of(device));
    return listed(index_of(device), "compute", count, processes);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, unsigned *count, Process *processes) {
    BEGIN(index_of(device));
    return listed(index_of(device), "graphics", count, processes);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(Device device, unsigned *count, Process *processes) {
    BEGIN(index_of(device));
    return listed(index_of(device), "mps", count, processes);
}

int nvmlDeviceGetRemappedRows(Device device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    BEGIN(index_of(device));
    *corrected = number_of(index_of(device), "remapped_corrected", 0);
    *uncorrected = number_of(index_of(device), "remapped_uncorrected", 0);
    *pending = number_of(index_of(device), "remap_pending", 0);
    *failed = number_of(index_of(device), "remap_failed", 0);
    return SUCCESS;
}

int nvmlDeviceGetSramEccErrorStatus(Device device, SramErrors *told) {
    BEGIN(index_of(device));
    if (told->version != (sizeof *told | 1 << 24))
        return ARGUMENT_VERSION_MISMATCH;
    told->volatile_parity = number_of(index_of(device), "sram_parity", 0);
    told->volatile_secded = number_of(index_of(device), "sram_uncorrected", 0);
    told->threshold_exceeded = number_of(index_of(device), "sram_threshold_exceeded", 0);
    return SUCCESS;
}

/* `fabric_version=2` is a driver that knows no newer struct. */
int nvmlDeviceGetGpuFabricInfoV(Device device, FabricInfo *told) {
    unsigned version = told->version >> 24, size = told->version & 0xffffff;

    BEGIN(index_of(device));
    if (version < 2 || version > number_of(index_of(device), "fabric_version", 3) || size != (version == 2 ? 36 : sizeof *told))
        return ARGUMENT_VERSION_MISMATCH;
    told->state = number_of(index_of(device), "fabric_state", 3);
    told->status = number_of(index_of(device), "fabric_status", SUCCESS);
    told->health_mask = number_of(index_of(device), "fabric_health_mask", 0);
    if (version > 2)
        told->health = number_of(index_of(device), "fabric_health", 1);
    return SUCCESS;
}

int nvmlDeviceGetGridLicensableFeatures_v4(Device device, Features *told) {
    BEGIN(index_of(device));
    memset(told, 0, sizeof *told);
    told->supported = number_of(index_of(device), "licensable", 1);
    told->count = told->supported ? 2 : 0;
    told->features[1].state = number_of(index_of(device), "licensed", 1);
    return SUCCESS;
}
#endif

#include "nvml_load.h"

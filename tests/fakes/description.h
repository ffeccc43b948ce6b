/* What the fake libraries tell, read anew at each call from the file that FAKE_GPUS names: lines of KEY=VALUE.
 *
 *     count=8                                       of all GPUs together
 *     name=NVIDIA H100 80GB HBM3                    of each GPU
 *     3.name=NVIDIA A100-SXM4-80GB                  of GPU 3 alone
 *     error.nvmlInitWithFlags=18                    the function gives this code; 3.error.FUNCTION=15 for GPU 3 alone
 *     init_ms=40                                    that long cuInit takes
 *     hang.FUNCTION=1, crash.FUNCTION=1             it never returns, or dies of SIGSEGV; also for one GPU alone
 *
 * FUNCTION is the library's own name, with its version: nvmlDeviceGetMemoryInfo_v2. A GPU of which nothing is told is a healthy
 * and idle H100. What its keys do, the functions of nvml.c say; numbers are in NVML's units (bytes, mW, MHz, percent):
 *
 *     uuid, name, minor, bus, pci_device_id=0x233010de, pci_subsystem_id, capability=90
 *     memory, memory_used, memory_reserved, utilisation=90 5 90
 *     compute=PID:BYTES PID, graphics=..., mps=...
 *     ecc, ecc_corrected, ecc_uncorrected, sram_uncorrected, sram_parity, sram_threshold_exceeded
 *     remapped_corrected, remapped_uncorrected, remap_pending, remap_failed, retired_pages, retired_pages_pending
 *     field.230 (recovery action), compute_mode, mig, mig_instances, virtualization, licensable, licensed, confidential
 *     persistence, display_active, fabric_version, fabric_state, fabric_status, fabric_health, fabric_health_mask
 *     link_gen_max, slot_gen_max, slot_width_max, power_limit, power_limit_default
 *     sm_clock_max, memory_clock_max, memory_bus, slowdown
 *
 * nvml_load.h says what tells how it works, and what of it grows with time.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NOBODY = -1, LONGEST = 256 };

/* The value of a key, into `value`; 0 where the file has no such line. */
static int line_of(const char *key, char *value) {
    const char *path = getenv("FAKE_GPUS");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[LONGEST];
    size_t length = strlen(key);
    int found = 0;

    while (file && !found && fgets(line, sizeof line, file))
        if (!strncmp(line, key, length) && line[length] == '=') {
            line[strcspn(line, "\n")] = 0;
            strcpy(value, line + length + 1);
            found = 1;
        }
    if (file)
        fclose(file);
    return found;
}

/* What is told of this GPU, or of each, or else `otherwise`. */
static const char *text_of(int gpu, const char *key, const char *otherwise, char *value) {
    char own[LONGEST];

    snprintf(own, sizeof own, "%d.%s", gpu, key);
    if ((gpu != NOBODY && line_of(own, value)) || line_of(key, value))
        return value;
    return strcpy(value, otherwise);
}

static long long number_of(int gpu, const char *key, long long otherwise) {
    char value[LONGEST];

    text_of(gpu, key, "", value);
    return *value ? strtoll(value, NULL, 0) : otherwise;
}

/* Does to the caller what is told of this function; gives the code that it is to return, 0 for none. */
static int fate(const char *function, int gpu) {
    char key[LONGEST];

    snprintf(key, sizeof key, "hang.%s", function);
    while (number_of(gpu, key, 0))
        pause();
    snprintf(key, sizeof key, "crash.%s", function);
    if (number_of(gpu, key, 0))
        raise(SIGSEGV);
    snprintf(key, sizeof key, "error.%s", function);
    return number_of(gpu, key, 0);
}

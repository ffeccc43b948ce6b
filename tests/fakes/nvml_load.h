/* The part of our libnvidia-ml.so.1 that tells what a GPU does at this moment. A healthy H100 at work, where nothing is told:
 *
 *     sm_clock, memory_clock (MHz), power (mW), temperature, reasons=0x4 (bits)
 *     field.269_per_s=500000000, violation.1_per_s                         ns of clocks held down, in a second
 *     link_gen, link_width, link_idle_ms=300, link_gen_idle                the generation that it has for so long at first
 *     replays, replays_per_s
 */
typedef struct { unsigned long long reference, violation; } Violation;

ONE_NUMBER(nvmlDeviceGetPowerUsage, "power", 400000)
ONE_NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "link_width", 16)

int nvmlDeviceGetClockInfo(Device device, unsigned type, unsigned *mhz) {
    enum { SM_CLOCK = 1, MEMORY_CLOCK = 2 };

    BEGIN(index_of(device));
    if (type != SM_CLOCK && type != MEMORY_CLOCK)
        return NOT_SUPPORTED;
    *mhz = type == SM_CLOCK ? number_of(index_of(device), "sm_clock", 1755) : number_of(index_of(device), "memory_clock", 2619);
    return SUCCESS;
}

int nvmlDeviceGetTemperature(Device device, unsigned sensor, unsigned *degrees) {
    BEGIN(index_of(device));
    (void)sensor;
    *degrees = number_of(index_of(device), "temperature", 55);
    return SUCCESS;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long *bits) {
    BEGIN(index_of(device));
    *bits = number_of(index_of(device), "reasons", 0);
    return SUCCESS;
}

int nvmlDeviceGetViolationStatus(Device device, unsigned policy, Violation *told) {
    char key[LONGEST];

    BEGIN(index_of(device));
    snprintf(key, sizeof key, "violation.%u", policy);
    told->violation = growing(index_of(device), key, 0);
    told->reference = seconds() * 1e6;
    return SUCCESS;
}

int nvmlDeviceGetCurrPcieLinkGeneration(Device device, unsigned *generation) {
    BEGIN(index_of(device));
    *generation = 1000 * seconds() < number_of(index_of(device), "link_idle_ms", 0)
        ? number_of(index_of(device), "link_gen_idle", 1)
        : number_of(index_of(device), "link_gen", 5);
    return SUCCESS;
}

int nvmlDeviceGetPcieReplayCounter(Device device, unsigned *count) {
    BEGIN(index_of(device));
    *count = growing(index_of(device), "replays", 0);
    return SUCCESS;
}

#ifndef OLD_DRIVER
int nvmlDeviceGetCurrentClocksEventReasons(Device device, unsigned long long *bits) {
    BEGIN(index_of(device));
    *bits = number_of(index_of(device), "reasons", 0);
    return SUCCESS;
}
#endif

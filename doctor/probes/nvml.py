"""Ask NVML what there is. Any of its calls can hang in a driver that is ill, or crash in a library that does not fit."""

from .nvml_calls import Nvml, address


def probe(_arguments, step):
    """Gives what each call said, and the name of the error code of each that failed."""
    nvml = Nvml(step)
    errors = {}  # type: dict[str, str]
    ask = nvml.asker(errors)
    ask("nvmlInit")
    if errors:
        return {"error": errors["nvmlInit"]}
    cuda = ask("nvmlSystemGetCudaDriverVersion")
    count = ask("nvmlDeviceGetCount")
    found = {
        "driver_version": ask("nvmlSystemGetDriverVersion"),
        "cuda_version": cuda and "%d.%d" % (cuda // 1000, cuda % 1000 // 10),
        "count": count,
        "gpus": [gpu(index, nvml) for index in range(count or 0)],
        "errors": errors,
    }
    ask("nvmlShutdown")
    return found


def gpu(index, nvml):
    errors = {}  # type: dict[str, str]
    ask = nvml.asker(errors, " %d" % index)
    found = {"index": index, "errors": errors}
    handle = ask("nvmlDeviceGetHandleByIndex", index)
    if handle is None:
        return found
    pci, memory = ask("nvmlDeviceGetPciInfo", handle), ask("nvmlDeviceGetMemoryInfo", handle)
    mig = ask("nvmlDeviceGetMigMode", handle)
    found.update(
        uuid=ask("nvmlDeviceGetUUID", handle),
        name=ask("nvmlDeviceGetName", handle),
        minor=ask("nvmlDeviceGetMinorNumber", handle),
        pci=pci and address(pci),
        memory_bytes=memory and memory.total,
        mig=mig and bool(mig[0]),
    )
    return found

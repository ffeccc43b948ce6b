"""Ask NVML what there is. Any of its calls can hang in a driver that is ill, or crash in a library that does not fit."""


def probe(_arguments, step):
    """Gives what each call said, and the name of the error code of each that failed."""
    step("import pynvml")
    import pynvml  # noqa: PLC0415

    names = {value: name[len("NVML_ERROR_") :] for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_")}

    def asker(errors, about=""):
        def ask(function, *handle):
            step(function + about)
            try:
                return getattr(pynvml, function)(*handle)
            except pynvml.NVMLError as error:
                errors[function] = names.get(error.value, str(error.value))
                return None

        return ask

    errors = {}  # type: dict[str, str]
    ask = asker(errors)
    ask("nvmlInit")
    if errors:
        return {"error": errors["nvmlInit"]}
    cuda = ask("nvmlSystemGetCudaDriverVersion")
    count = ask("nvmlDeviceGetCount")
    found = {
        "driver_version": ask("nvmlSystemGetDriverVersion"),
        "cuda_version": cuda and "%d.%d" % (cuda // 1000, cuda % 1000 // 10),
        "count": count,
        "gpus": [gpu(index, asker) for index in range(count or 0)],
        "errors": errors,
    }
    ask("nvmlShutdown")
    return found


def gpu(index, asker):
    errors = {}  # type: dict[str, str]
    ask = asker(errors, " %d" % index)
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
        pci=pci and text(pci.busId).lower()[-12:],
        memory_bytes=memory and memory.total,
        mig=mig and bool(mig[0]),
    )
    return found


def text(value):
    return value.decode("ascii", "replace") if isinstance(value, bytes) else value

from dl_doctor.contract import Check
from dl_doctor.facts import Environment, GpuAccess, GpuLibraries, NvidiaDriver, Nvml, Runtime
from dl_doctor.facts.gpu_libraries import Library
from dl_doctor.fixes import remake_container
from dl_doctor.model import NO_GPU, Finding, Fix, Unavailable, Verdict

CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES=compute,utility"

WSL_FOLDER = "/usr/lib/wsl/"


def gpu_libraries(
    libraries: GpuLibraries,
    driver: NvidiaDriver,
    access: GpuAccess | Unavailable,
    nvml: Nvml | Unavailable,
    runtime: Runtime | Unavailable,
    environment: Environment | Unavailable,
) -> Verdict:
    """The driver's libraries are the right ones

    ## What it checks
    Where libcuda.so.1 and libnvidia-ml.so.1 come from when the job's interpreter loads them, and whether they are as old as the
    kernel module.

    ## Why it matters
    They belong to the driver and are put into a container when it starts. One that is missing, a stub that programs are linked
    against, or one of another version than the module makes CUDA fail while nvidia-smi may work, or the other way round.

    ## How it decides
    Only where a GPU was granted. libcuda that does not load while libnvidia-ml does fails: the container has the capability
    `utility` without `compute`, which is what images get that say nothing. So does libcuda from a `stubs` folder, a file that is
    there and cannot be loaded, and a version other than the module's, by name or by NVML's LIB_RM_VERSION_MISMATCH. A library of
    CUDA's compatibility package may be newer. libnvidia-ml that is missing alone warns: NCCL looks for it.

    For example, libcuda.so.550.107.02 with module 550.90.07 fails: the driver was updated, and the module is still the old one.

    ## How to fix
    Ask for the capabilities `compute,utility`; make the container anew; reload the module or restart the node.

    ## Known limits
    The loader is asked, not the libraries: a program that sets its own path may load others. In WSL and on Jetsons the files do
    not tell their version.

    ## References
    NVIDIA/nvidia-docker#671, NVIDIA/nvidia-docker#365, mudler/LocalAI#11973, lyulyul/shine-cluster#30
    """
    if driver.platform == "jetson":
        return Verdict.skip("a Jetson has libraries of its own; a run on the GPU tells whether they fit")
    granted = (isinstance(access, GpuAccess) and access.opened) or (isinstance(nvml, Nvml) and nvml.usable)
    if not granted and driver.platform == "native":
        return Verdict.skip("this job was given no GPU" if driver.there else NO_GPU)
    ended = libraries.ended
    if ended.how in ("killed", "stuck") and ended.signal != "SIGKILL":
        return Verdict("", [broken(f"Loading the driver's libraries ends the process: it {ended.in_words}")])
    if libraries.cuda is None or libraries.nvml is None:
        return Verdict.unknown(f"the libraries cannot be looked at: a process of the job's interpreter {ended.in_words}")
    if driver.platform == "wsl" and not granted and libraries.cuda.missing and libraries.nvml.missing:
        return Verdict.skip(NO_GPU)
    seen = f"libcuda {place(libraries.cuda)}; libnvidia-ml {place(libraries.nvml)}; module {driver.version or 'not to be seen'}"
    return Verdict(
        seen,
        [
            *absent(libraries.cuda, libraries.nvml, environment),
            *damaged(libraries.cuda, libraries.nvml),
            *stub(libraries.cuda),
            *other_version(libraries.cuda, libraries.nvml, driver, nvml),
            *shadowed(libraries.cuda, driver, runtime),
        ],
    )


def place(library: Library) -> str:
    return library.path or library.error or "loaded from a file that is not named"


def absent(cuda: Library, ml: Library, environment: Environment | Unavailable) -> list[Finding]:
    told = environment.get("NVIDIA_DRIVER_CAPABILITIES") if isinstance(environment, Environment) else None
    capabilities = f"NVIDIA_DRIVER_CAPABILITIES is {told or 'not set, which means utility alone'}"
    if cuda.missing and ml.missing:
        why = "The device nodes are here and the driver's libraries are not: they come with NVIDIA's container runtime."
        return [broken("NVIDIA's libraries are not here: neither libcuda.so.1 nor libnvidia-ml.so.1", why)]
    if cuda.missing:
        why = f"nvidia-smi works, CUDA does not: {capabilities}."
        return [broken("libcuda.so.1 is not here, libnvidia-ml.so.1 is: the capability `compute` is missing", why)]
    if ml.missing:
        why = f"NCCL looks for it, and so does PyTorch before it touches a GPU. {capabilities}."
        finding = broken("libnvidia-ml.so.1 is not here: the capability `utility` is missing", why, level="warn")
        return [finding]
    return []


def damaged(*libraries: Library) -> list[Finding]:
    why = "A file of no length, or of another architecture, is what is left where a mount into the container went wrong."
    return [
        broken(f"A library of the driver is there and does not load: {library.error}", why)
        for library in libraries
        if library.error and not library.missing
    ]


def stub(cuda: Library) -> list[Finding]:
    if not cuda.is_stub:
        return []
    return [
        Finding(
            level="fail",
            subject="libcuda.so.1",
            summary=f"libcuda is a stub: {cuda.path}",
            why="Programs are linked against it on machines without a driver; every call of it fails. LD_LIBRARY_PATH names it.",
            fixes=(Fix("Drop the folder from LD_LIBRARY_PATH", ("echo $LD_LIBRARY_PATH",)),),
        )
    ]


def other_version(cuda: Library, ml: Library, driver: NvidiaDriver, nvml: Nvml | Unavailable) -> list[Finding]:
    differing = [
        (name, library.version)
        for name, library in (("libnvidia-ml", ml), ("libcuda", cuda))
        if library.version and driver.version and library.version != driver.version and not library.is_compat
    ]
    told = isinstance(nvml, Nvml) and nvml.error == "LIB_RM_VERSION_MISMATCH"
    if not differing and not told:
        return []
    files = " and ".join(f"{name} {version}" for name, version in differing) or "the libraries of another"
    return [
        Finding(
            level="fail",
            subject="driver",
            summary=f"The driver's parts are of different versions: module {driver.version or 'unknown'}, {files}",
            why="The driver was updated, and the module that runs is still the old one; or the container was made before. "
            'nvidia-smi says "Driver/library version mismatch".',
            owner="admin",
            fixes=(
                *remake_container(),
                Fix("Restart the node, or reload the module", ("reboot",), ("bare", "slurm", "container"), "needs-root"),
            ),
        )
    ]


def shadowed(cuda: Library, driver: NvidiaDriver, runtime: Runtime | Unavailable) -> list[Finding]:
    inside = isinstance(runtime, Runtime) and runtime.view == "container"
    if driver.platform != "wsl" or inside or not cuda.path or cuda.path.startswith(WSL_FOLDER) or cuda.is_stub:
        return []
    return [
        Finding(
            level="warn",
            subject="libcuda.so.1",
            summary=f"libcuda is not WSL's own: {cuda.path}",
            why=f"In WSL the driver is Windows', its library lies in {WSL_FOLDER}lib. A Linux package brought another.",
            fixes=(Fix("Remove the Linux driver's package", ("apt remove 'libnvidia-compute-*'",), risk="needs-root"),),
        )
    ]


def broken(summary: str, why: str = "The job's own import of CUDA will end so.", level: str = "fail") -> Finding:
    return Finding(
        level="warn" if level == "warn" else "fail",
        subject="libraries",
        summary=summary,
        why=why,
        owner="you",
        fixes=(
            Fix("Ask for the capabilities", (f"docker run --gpus all -e {CAPABILITIES} ...",), ("docker",)),
            Fix("Give the devices by CDI", ("podman run --device nvidia.com/gpu=all ...",), ("podman",)),
            Fix("In compose.yaml", ("gpus: all", f"environment: [{CAPABILITIES}]"), ("compose",)),
            Fix(
                "In the container's spec",
                ("env: [{name: NVIDIA_DRIVER_CAPABILITIES, value: 'compute,utility'}]", "runtimeClassName: nvidia"),
                ("kubernetes",),
            ),
            Fix("Start the container with the driver's libraries", ("apptainer exec --nv ...",), ("apptainer",)),
            Fix("Start the container with the capabilities", (f"{CAPABILITIES} enroot start ...",), ("enroot",)),
            Fix("Install the driver's libraries of the module's version", (), ("bare", "slurm", "container"), "needs-root"),
        ),
    )


CHECK = Check(gpu_libraries, scope="node")

"""How fast the GPUs multiply and copy, in the job's own torch: two seconds of each kind of work that training does.

Products run on all GPUs at the same time, as training does; the link to the host is used by one GPU after another. All else that
takes time (contexts, libraries, the first call of each shape) stands apart and is not measured. What fails is told in `raised` of
its GPU, and the rest goes on. At most a quarter of a GPU's free memory is taken, and no more than `most_bytes`.

It needs torch and the files beside it, and nothing of ours: tests/gpu_accuracy.py runs it on machines where nothing is installed.
"""

import importlib
import sys
import typing  # noqa: F401 (for comments)

from .gpu_copies import Pinned, copy_on, launching, over_the_link, overlap
from .gpu_devices import Device, busy, count_of, kind_of, node_of, nodes_of_mask, words_of
from .gpu_products import SHAPES, digest, main_type, matrices, other_types, products
from .gpu_race import measure, race, settle

SHARE_OF_FREE = 0.25
LEAST_FREE_BYTES = 256 << 20
"""With less of a GPU's memory free, nothing of use fits into a quarter of it. Proposal."""

BUSY_BYTES, BUSY_SHARE = 2 << 30, 0.03
"""Where no library tells who uses a GPU: more memory than the larger of these means that somebody does. A GiB, as gpu-idle has
it, and one for our own context."""

BUSY_TIME = 0.1
"""The same of its time, as gpu-idle has it."""

SHIMS = {
    "libvgpu.so": "HAMi's libvgpu.so hands out a part of it",
    "libgemhook.so": "KubeShare's libgemhook.so hands out a part of it",
}
"""Libraries that are loaded before CUDA's (names from memory)."""

RECIPES = {
    # seconds of warming up at most, of the main product, of each other type, of the copy, of each direction of the link
    "short": {"warm_s": 0.4, "main_s": 0.4, "other_s": 0.2, "copy_s": 0.2, "link_s": 0.15, "sustained_s": 0, "shapes": 1},
    "long": {"warm_s": 0.4, "main_s": 0.6, "other_s": 0.6, "copy_s": 0.3, "link_s": 0.3, "sustained_s": 4, "shapes": 3},
    "reference": {"warm_s": 3, "main_s": 10, "other_s": 10, "copy_s": 10, "link_s": 5, "sustained_s": 0, "shapes": 3},
}  # type: dict[str, dict[str, float]]
"""`short` is the default profile's, `long` deep's; `reference` is what they are compared with, and no profile runs it."""

COPY_BYTES = {"short": 384 << 20, "long": 384 << 20, "reference": 4 << 30}
LINK_BYTES = {"short": 128 << 20, "long": 256 << 20, "reference": 1 << 30}


def probe(arguments, step):
    """Measure.

    `length` is one of RECIPES; `most_bytes` what may be taken of each GPU, and `host_bytes` of the host. `leave` has reasons for
    GPUs that are not to be touched, by PCI address; `only` is the number of the one that is measured, None for all. With
    `check_memory` a GPU whose memory is in use is left alone. `device` is `cpu` for a rehearsal without a GPU, `scale` makes all
    shorter.
    """
    sys.dont_write_bytecode = True
    step("import torch")
    torch = importlib.import_module("torch")
    return Session(torch, arguments, step).told()


class Session:
    """One time through."""

    def __init__(self, torch, arguments, step):
        self.torch, self.arguments, self.step = torch, arguments, step
        scale = arguments.get("scale", 1)
        recipe = RECIPES[arguments["length"]]
        self.recipe = {name: value * scale if name.endswith("_s") else value for name, value in recipe.items()}
        self.deep = arguments["length"] == "long"
        self.scale = scale
        self.rates = []  # type: list[dict[str, typing.Any]]
        self.phases = []  # type: list[dict[str, typing.Any]]
        self.extras = {}  # type: dict[Device, dict[str, typing.Any]]

    def told(self):
        step, kind = self.step, self.arguments.get("device")
        step("look for GPUs")
        kind = kind or kind_of(self.torch)
        if kind is None:
            return {"gpus": [], "rates": [], "phases": [], "marks": marks()}
        only = self.arguments.get("only")
        numbers = range(count_of(self.torch, kind)) if only is None else [only]
        devices = [Device(self.torch, kind, number) for number in numbers]
        usable = [device for device in devices if self.begun(device)]
        self.extras = {device: {} for device in devices}
        if usable:
            self.compute(usable)
            self.copy(usable)
            self.let_go(usable)
            self.use_link(usable)
        return {
            "gpus": [self.description(device) for device in devices],
            "rates": self.rates,
            "phases": self.phases,
            "marks": marks(),
        }

    def begun(self, device):
        """Whether it can be measured. What is in use is looked at before anything of ours is there."""
        leave = self.arguments.get("leave") or {}
        device.skipped = leave.get(device.told["pci"])
        if leave and device.told["pci"] is None:
            device.skipped = "GPUs here are in use, and this one's address is not known"
        if device.skipped or device.raised:
            return False
        nobody_looked = self.arguments.get("check_memory")
        if nobody_looked and (busy(device.told["pci"]) or 0) > BUSY_TIME:
            device.skipped = "something keeps it busy"
            return False
        self.step("begin %s %d" % (device.backend, device.index))
        try:
            device.begin()
            free = device.free_bytes()
        except Exception as error:  # noqa: BLE001 (a GPU that is ill, held by another process, or full)
            device.raised["begin"] = words_of(error)
            return False
        total = device.told["memory_bytes"] or 0
        own = not device.told["integrated"]
        if nobody_looked and own and total - free > max(BUSY_BYTES, BUSY_SHARE * total):
            device.skipped = "%.1f GiB of its memory are in use" % ((total - free) / (1 << 30))
        device.budget = int(min(self.arguments["most_bytes"], SHARE_OF_FREE * free))
        if free < LEAST_FREE_BYTES:
            device.skipped = "only %d MiB of its memory are free" % (free >> 20)
        return not device.skipped

    def compute(self, devices):
        """Products of all types, on all GPUs at once."""
        self.race_products(devices, main_type, self.recipe["main_s"], "products", warm_s=self.recipe["warm_s"])
        self.compare(devices)
        if hasattr(self.torch, "set_float32_matmul_precision"):  # before 1.12 it is not known which of the two one gets
            for what, precision in (("fp32", "highest"), ("tf32", "high")):
                self.torch.set_float32_matmul_precision(precision)
                self.race_others(devices, what)
            self.torch.set_float32_matmul_precision("highest")
        for what in ("fp16", "fp8"):
            self.race_others(devices, what)
        if self.recipe["sustained_s"]:
            self.sustain(devices)
            self.let_go(devices)

    def race_others(self, devices, what):
        having = [device for device in devices if what in other_types(device, self.deep)]
        self.race_products(having, lambda _device: what, self.recipe["other_s"], what)

    def race_products(self, devices, what_of, seconds, phase, warm_s=0.0):
        """Of each GPU the best of the shapes that are tried."""
        best = {}  # type: dict[Device, dict[str, typing.Any]]
        shapes = SHAPES[: int(self.recipe["shapes"])]
        for shape in shapes if devices else ():
            for device in devices:
                device.raised.pop(what_of(device), None)  # of another shape
            for device, told in self.race_shape(devices, what_of, seconds / len(shapes), phase, shape, warm_s):
                if device not in best or told["achieved"] > best[device]["achieved"]:
                    best[device] = told
            self.let_go(devices)
        for device, told in best.items():
            device.raised.pop(what_of(device), None)
            self.rates.append(rate(device, what_of(device), "TFLOP/s", told, 1e12))

    def race_shape(self, devices, what_of, seconds, phase, shape, warm_s):
        self.step("%s: load kernels" % phase)
        runs = products(devices, what_of, seconds, shape)
        settle(runs, warm_s)
        self.step(phase)
        found, begin_s, end_s = measure(runs, seconds)
        self.stamp(phase, None, begin_s, end_s)
        return [(run.device, told) for run, told in found.items()]

    def compare(self, devices):
        """The digest of one product, where it can be compared, and once more where equal GPUs differ."""
        self.step("compare products")
        pair = matrices(self.torch, *([64] if self.arguments.get("device") == "cpu" else []))
        for device in devices:
            self.take_digest(device, pair, "digest")
        for device in devices:
            equal = [other for other in devices if alike(other, device) and "digest" in self.extras[other]]
            if len({self.extras[other]["digest"] for other in equal}) > 1 and device in equal:
                self.take_digest(device, pair, "digest_repeated")
        self.let_go(devices)

    def take_digest(self, device, pair, name):
        try:
            self.extras[device][name] = digest(device, pair)
        except Exception as error:  # noqa: BLE001
            device.raised[name] = words_of(error)

    def sustain(self, devices):
        """Whether products become slower within seconds: the last quarter's rate by the first one's."""
        self.step("sustained")
        seconds = self.recipe["sustained_s"]
        runs = products(devices, main_type, self.recipe["other_s"])
        begin_s, end_s = race(runs, seconds)
        self.stamp("sustained", None, begin_s, end_s)
        for run in runs:
            rates = run.rates()
            quarter = len(rates) // 4
            if run.open and quarter:
                self.extras[run.device]["sustained"] = mean(rates[-quarter:]) / mean(rates[:quarter])

    def copy(self, devices):
        """Between two buffers of each GPU, on all of them at once."""
        self.step("copy")
        size = min(COPY_BYTES[self.arguments["length"]], self.arguments["most_bytes"] // 2)
        runs = [run for run in (copy_on(device, size) for device in devices) if run is not None]
        runs = [run for run in runs if run.calibrate(self.recipe["copy_s"]) is not None]
        found, begin_s, end_s = measure(runs, self.recipe["copy_s"])
        self.stamp("copy", None, begin_s, end_s)
        for run, told in found.items():
            self.rates.append(rate(run.device, "copy", "GB/s", told, 1e9))

    def use_link(self, devices):
        """Copies between the host and each GPU in turn, and in deep what hides behind products and what launching takes."""
        self.step("pin memory")
        pinned = Pinned(self.torch, min(LINK_BYTES[self.arguments["length"]], self.arguments["host_bytes"]))
        for device in devices:
            if not device.has_link:
                continue
            self.step("host copies %d" % device.index)
            try:
                host, node = pinned.near(device)
            except Exception as error:  # noqa: BLE001 (no memory may be pinned)
                device.raised["pinned memory"] = words_of(error)
                continue
            self.extras[device]["host_numa"] = node
            self.keep_link(device, over_the_link(device, host, self.recipe["link_s"]))
            if self.deep:
                plain = self.torch.ones(host.numel(), dtype=self.torch.uint8)
                self.keep_link(device, over_the_link(device, plain, self.recipe["link_s"], ", pageable"))
                self.look_deeper(device, host)
            self.let_go([device])

    def keep_link(self, device, found):
        for what, (told, begin_s, end_s) in found.items():
            self.rates.append(rate(device, what, "GB/s", told, 1e9))
            if "pageable" not in what:  # there the CPU copies, and the link waits
                self.stamp("host copies", device, begin_s, end_s)

    def look_deeper(self, device, host):
        self.step("launch %d" % device.index)
        extra = self.extras[device]
        device.budget //= 2  # products and copies at the same time
        try:
            extra["launch_us"], extra["wait_us"] = launching(device, self.scale)
            if device.kind in ("cuda", "xpu"):
                self.step("overlap %d" % device.index)
                runs = products([device], main_type, self.recipe["other_s"])
                if runs:
                    extra["overlap"] = overlap(device, runs[0], host)
        except Exception as error:  # noqa: BLE001
            device.raised["launch and overlap"] = words_of(error)

    def stamp(self, phase, device, begin_s, end_s):
        """By time.monotonic, which other processes share."""
        index = None if device is None else device.index
        self.phases.append({"phase": phase, "index": index, "begin_s": begin_s, "end_s": end_s})

    def let_go(self, devices):
        for device in devices:
            try:
                device.let_go()
            except Exception as error:  # noqa: BLE001 (an error of work before it, which is told late)
                device.raised.setdefault("let go", words_of(error))

    def description(self, device):
        told = {name: value for name, value in device.told.items() if name != "l2_bytes"}
        told.update(index=device.index, backend=device.backend, raised=device.raised, skipped=device.skipped)
        told.update(device_numa=node_of(device.told["pci"]), mask_numa=nodes_of_mask(), **self.extras.get(device, {}))
        return told


def rate(device, what, unit, told, size):
    """What was found, in this unit of so many operations or bytes per second."""
    scaled = dict(told, achieved=told["achieved"] / size, best=told["best"] / size)
    return dict(scaled, index=device.index, what=what, unit=unit)


def alike(one, another):
    """Whether both have to give the same bits: the same kind of GPU, with as many multiprocessors."""
    return all(one.told[name] == another.told[name] for name in ("name", "multiprocessors"))


def mean(values):
    return sum(values) / len(values)


def marks():
    """What stands between torch and CUDA in this process and shares out the GPU: its rates tell nothing of the GPU then."""
    try:
        with open("/proc/self/maps") as file:
            mapped = file.read()
    except OSError:
        return []
    return [words for library, words in SHIMS.items() if library in mapped]

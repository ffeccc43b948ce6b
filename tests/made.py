"""Reports that no machine gave: pipelines that were measured, a large node, and names that mean harm."""

from typing import Any

import msgspec

from dl_doctor.model import Finding, Fix, Pipeline, Quantity, Reason, Report, Result, Stage, Unavailable
from dl_doctor.outcome import outcome_of
from dl_doctor.settings import Settings

STAGES = ("disk", "workers", "shared memory", "main process", "gpu", "step")

RATES = {
    # samples per second of each stage, what the step could take, the narrowest
    "all": ((5230, 1041, 9800, 2650, 21_000, 1900), 1900, "workers"),
    "without-demand": ((5230, 1041, 9800, 2650, 21_000, 1900), None, "workers"),
    "some": ((5230, 410, None, None, None, None), None, "workers"),
    "demand-alone": ((None, None, None, None, None, 1900), 1900, None),
    "even": ((1000, 1000, 1000, 1000, 1000, 1000), 1000, "disk"),
    "nothing-passes": ((5230, 0, 9800, 2650, 21_000, 1900), 1900, "workers"),
    "none": ((None, None, None, None, None, None), None, None),
}

SWEEP: dict[str, Any] = {
    "points": [
        {"num_workers": 0, "samples_per_s": 118.2, "samples_per_s_low": 115, "samples_per_s_high": 121, "gpu_fed": 0.062,
         "epoch_s": 10_900, "startup_s": 0.0, "bottleneck": "cpu"},
        {"num_workers": 1, "samples_per_s": 112, "samples_per_s_low": 108, "samples_per_s_high": 116, "gpu_fed": 0.059,
         "epoch_s": 11_400, "startup_s": 0.4, "bottleneck": "cpu"},
        {"num_workers": 2, "samples_per_s": 222, "samples_per_s_low": 214, "samples_per_s_high": 229, "gpu_fed": 0.117,
         "epoch_s": 5760, "startup_s": 0.5, "bottleneck": "cpu"},
        {"num_workers": 4, "samples_per_s": 431, "samples_per_s_low": 420, "samples_per_s_high": 446, "gpu_fed": 0.227,
         "epoch_s": 2970, "startup_s": 0.8, "bottleneck": "cpu"},
        {"num_workers": 8, "samples_per_s": 798, "samples_per_s_low": 760, "samples_per_s_high": 830, "gpu_fed": 0.42,
         "gpu_utilization": 0.51, "epoch_s": 1604, "startup_s": 1.4, "bottleneck": "cpu"},
        {"num_workers": 12, "samples_per_s": 1020, "samples_per_s_low": 940, "samples_per_s_high": 1090, "gpu_fed": 0.537,
         "epoch_s": 1255, "startup_s": 2.1, "bottleneck": "ipc"},
        {"num_workers": 16, "samples_per_s": 1041, "samples_per_s_low": 930, "samples_per_s_high": 1130, "gpu_fed": 0.548,
         "epoch_s": 1230, "startup_s": 2.8, "bottleneck": "ipc"},
    ],
    "recommendation": {
        "num_workers": {"value": 12, "basis": "measured"},
        "prefetch_factor": {"value": 4, "basis": "measured"},
        "pin_memory": {"value": True, "basis": "rule"},
        "persistent_workers": {"value": True, "basis": "rule"},
        "start_method": {"value": "fork", "basis": "kept"},
        "bottleneck": "ipc",
        "reason": "16 workers bring 2 % more, which is within the noise.",
        "gain": "2.4 times the samples/s of num_workers=4",
    },
}  # fmt: skip

OF_AN_H100 = (
    # achieved as NVIDIA's users tell, possible by the data sheet of the SXM5 board (dense) and by 16 lanes of PCIe 5.0
    ("bf16", 742.3, 989.4, "TFLOP/s", "datasheet"),
    ("fp32", 51.4, 66.9, "TFLOP/s", "datasheet"),
    ("tf32", 391.0, 494.7, "TFLOP/s", "datasheet"),
    ("copy", 2912.0, 3350.0, "GB/s", "datasheet"),
    ("host to device", 55.4, 63.0, "GB/s", "link"),
    ("device to host", 55.1, 63.0, "GB/s", "link"),
)
"""What, achieved, possible, unit, and where the possible is from."""


def gpu_facts(gpus: int = 8, changed: int | None = None, slower: float = 1.0, **fields: Any) -> dict[str, Any]:
    """Facts of a probe of equal GPUs, each a little slower than the one before; one of them `slower`, with these fields."""
    probed: list[dict[str, Any]] = []
    for index in range(gpus):
        products = {"phase": "products", "samples": 8, "sm_mhz": 1755.0, "power_w": 690.0 - index, "temperature_c": 61.0}
        copies = {"phase": "host copies", "samples": 6, "link_gen": 5, "link_width": 16}
        gpu = {
            "gpu": f"gpu:{index}", "index": index, "backend": "cuda", "nvml_index": index, "name": "NVIDIA H100 80GB HBM3",
            "uuid": f"GPU-0000000{index}-0000-0000-0000-000000000000", "loads": [products, copies],
        }  # fmt: skip
        probed.append({**gpu, **fields} if index == changed else gpu)
    rates = [
        {"gpu": gpu["gpu"], "what": what, "unit": unit, "possible": possible, "basis": basis,
         "achieved": achieved * (1 - 0.002 * gpu["index"]) * (slower if gpu["index"] == changed else 1)}
        for gpu in probed if not gpu.get("skipped") for what, achieved, possible, unit, basis in OF_AN_H100
    ]  # fmt: skip
    link = {"gen": 5, "width": 16, "card_gen": 5, "card_width": 16, "slot_gen": 5, "slot_width": 16}
    limits = [
        {"gpu": gpu["gpu"], "part": "H100 SXM5 80 GB", "power_limit_w": 700.0, "power_limit_default_w": 700.0, "brakes": [],
         "link": link, "no_link": None, "no_verdict": None, "load": gpu["loads"][:1]}
        for gpu in probed
    ]  # fmt: skip
    states = [{"index": index, "uuid": gpu["uuid"], "memory_used_bytes": 1 << 20} for index, gpu in enumerate(probed)]
    return {
        "gpu_probe": {"length": "short", "gpus": probed, "rates": rates},
        "gpu_states": {"gpus": states},
        "gpu_yardsticks": {"gpus": limits},
    }


HOSTILE = (
    "<script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    "</pre></details><h1>owned</h1>",
    "\"'><svg onload=alert(1)>",
    "javascript:alert(1)",
    "{{ 7*7 }}{% raw %}",
    "\u202egnp.exe\u202c\u2066\u200f",
    "\x1b[2J\x1b]0;owned\x07\r\n\x00\ud800\u2028",
    "a" * 10_000,
    "``` | a | b |\n```\n# heading\n---\n- [x] item",
    "@everyone #1 GH-1 owner/repo#2 http://example.org www.example.org :tada: $x$ ![i](http://example.org/i.png)",
    "**bold** _it_ ~~gone~~ [link](http://example.org) <b>b</b> &lt;b&gt; `code` \\",
)
"""Names of files, hosts and plugins can be any text."""


def with_pipeline(report: Report, name: str) -> Report:
    """The report with a pipeline of RATES."""
    rates, demand, narrowest = RATES[name]
    stages = tuple(
        Stage(name=stage, samples_per_s=rate, measured_by="--profile default" if stage == "gpu" else "sweep --dataset")
        for stage, rate in zip(STAGES, rates, strict=True)
    )
    return msgspec.structs.replace(report, pipeline=Pipeline(stages, demand, narrowest))


def measured(report: Report) -> Report:
    """The report with all that a sweep and a probe of eight GPUs add; one of them is hot and has half of its link."""
    hot = {"phase": "products", "sm_mhz": 1095.0, "power_w": 431.0, "temperature_c": 91.0}
    facts = gpu_facts(8, changed=3, slower=0.6, loads=[hot])
    limits = facts["gpu_yardsticks"]["gpus"][3]
    limits |= {"brakes": [{"reason": "overheated", "share": 0.9}], "link": {**limits["link"], "width": 8}}
    return msgspec.structs.replace(with_pipeline(report, "all"), facts={**report.facts, "loader_sweep": SWEEP, **facts})


def result(id_: str, status: Any, *findings: Finding, **fields: Any) -> Result:
    return Result(
        id=id_, area=fields.pop("area", "a"), scope="job", title=fields.pop("title", f"What {id_} looks at is well"),
        status=status, seen=fields.pop("seen", f"saw {id_}"), reason=fields.pop("reason", None), findings=findings,
        duration_s=0.001, **fields,
    )  # fmt: skip


def with_results(report: Report, *results: Result) -> Report:
    statuses = [one.status for one in results]
    findings = [finding for one in results for finding in one.findings]
    summary = msgspec.structs.replace(
        report.summary,
        passed=statuses.count("pass"),
        **{status: statuses.count(status) for status in ("warn", "fail", "skip", "error", "not_run")},
        note=sum(finding.level == "note" for finding in findings),
        accepted=sum(finding.accepted is not None for finding in findings),
    )
    verdict = outcome_of(results, essential=set(), settings=Settings())
    return msgspec.structs.replace(report, results=results, verdict=verdict, summary=summary)


def large_node(report: Report, findings: int = 20, checks: int = 90, long: int = 3) -> Report:
    """A node with eight GPUs and a lot to say about each; texts are `long` sentences."""
    results = []
    for index in range(checks):
        id_, area = f"check-{index}", f"area{index % 9}"
        if index < findings:
            level = "warn" if index % 3 else "fail"
            fix = Fix(f"Mend {id_}", (f"nvidia-smi -i {index} --reset", f"systemctl restart part-{index}"), note="On the host.")
            found = Finding(
                level=level, subject=f"gpu:{index % 8}", summary=f"GPU {index % 8} does not do what {id_} expects of it",
                measured=Quantity(index + 0.5, "GB/s", "NVML"), expected=Quantity(55, "GB/s", f"PCIe 5 x16, {id_}"),
                relation="at_least", why=f"This is sentence {id_} on what follows from it. " * long,
                owner="admin" if index % 2 else "you", fixes=(fix,) * 2,
                explained_by="check-0" if index in (3, 4) else None,
            )  # fmt: skip
            results.append(result(id_, level, found, area=area))
        elif index % 5 == 0:
            results.append(result(id_, "skip", area=area, reason=Reason("absent", f"there is no part of kind {index % 3} here")))
        elif index % 11 == 0:
            results.append(
                result(id_, "error", area=area, reason=Reason("timeout", f"{id_} did not answer"), trace=f"Traceback:\n  {id_}")
            )
        elif index % 4 == 0:
            results.append(result(id_, "not_run", area=area, reason=Reason("not_asked", "needs --dataset or --loader")))
        else:
            note = Finding(level="note", subject="x", summary=f"It is worth knowing of {id_}", why="Because it matters.")
            results.append(result(id_, "pass", *([note] if index % 7 == 0 else []), area=area))
    machine = msgspec.structs.replace(report.machine, gpus=("NVIDIA H100 80GB HBM3",) * 8)
    return with_results(msgspec.structs.replace(report, machine=machine), *results)


def hostile(report: Report) -> Report:
    """The report with HOSTILE texts wherever a stranger's text may stand."""
    results = []
    for index, evil in enumerate(HOSTILE):
        finding = Finding(
            level="fail", subject=evil, summary=evil, measured=Quantity(1, evil, evil), expected=Quantity(2, "bytes", evil),
            why=evil, owner=evil, fixes=(Fix(evil, (evil, evil), risk=evil, note=evil),), explained_by=None,
        )  # fmt: skip
        results += [
            result(f"fail-{index}{evil}", "fail", finding, msgspec.structs.replace(finding, accepted=evil), area=evil, seen=evil),
            result(f"warn-{index}", "warn", msgspec.structs.replace(finding, level="warn", explained_by=evil), seen=evil),
            result(evil, "error", reason=Reason("failed", evil, evil), trace=evil, title=evil),
            result(f"skip-{index}", "skip", reason=Reason("absent", evil), title=evil),
            result(evil, "pass", msgspec.structs.replace(finding, level="note"), seen=evil, title=evil),
        ]
    evil = "<b>&\"'"
    machine = msgspec.structs.replace(
        report.machine, hostname=HOSTILE[0], os=HOSTILE[1], gpus=HOSTILE, torch=HOSTILE[3], runtime=HOSTILE[5], kernel=HOSTILE[8]
    )
    points = [{"num_workers": "4", "samples_per_s": 1}, None, {"num_workers": 1, "samples_per_s": 5, "bottleneck": evil}]
    facts = {
        "loader_sweep": {"points": points, "recommendation": {"num_workers": 1, "reason": HOSTILE[0], "gain": [evil]}},
        "gpu_probe": {
            "rates": [
                *({"gpu": name, "what": name, "achieved": 1, "possible": 2, "unit": name, "basis": name} for name in HOSTILE),
                7,
            ],
            "gpus": [
                *({"gpu": name, "name": name, "nvml_index": 0, "raised": {name: name}} for name in HOSTILE),
                *({"gpu": f"skipped{name}", "skipped": name} for name in HOSTILE),
            ],
        },
        "gpu_yardsticks": {"gpus": [{"gpu": name, "brakes": [{"reason": name}], "power_limit_w": name} for name in HOSTILE]},
        "collect_env": {"text": "\n".join(HOSTILE)},
        "loader": {"arguments": dict.fromkeys(HOSTILE, HOSTILE[0])},
    }
    stages = tuple(Stage(name=evil, samples_per_s=None, measured_by=evil) for evil in HOSTILE)
    report = msgspec.structs.replace(
        report,
        machine=machine,
        facts=facts,
        pipeline=Pipeline(stages, 1e300, HOSTILE[0]),
        run=msgspec.structs.replace(report.run, started_at=evil, settings={evil: HOSTILE[0], "data": list(HOSTILE)}),
        unavailable={evil: Unavailable.failed(evil) for evil in HOSTILE},
    )
    return with_results(report, *results)

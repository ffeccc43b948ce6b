"""The names of what is in the way, by evidence that is written down."""

from typing import Any

import pytest

from dl_doctor.facts.bottleneck import Costs, Evidence, Known, bottleneck_of

WORKS: dict[str, Any] = {"samples": 64, "read_s": 0.005, "read_cpu_s": 0.0049, "collate_s": 0.0001, "again_s": 0.005}
SLEEPS = {**WORKS, "read_cpu_s": 0.0001}
REMOTE = {**SLEEPS, "received_bytes": 5e4}


def named(evidence: dict[str, Any], costs: dict[str, Any] | None = WORKS, **known: Any) -> str:
    plain = {"workers": 4, "samples_per_s": 400.0, "wants_cpu": 0.1, "cpus_used": 0.2, "main_cpus": 0.05, "main_wants": 0.06}
    name, why = bottleneck_of(Evidence(**{**plain, **evidence}), Known(costs=costs and Costs(**costs), **known))
    assert why
    return name


@pytest.mark.parametrize(
    ("name", "evidence", "costs", "known"),
    [
        ("cpu", {"wants_cpu": 0.99}, WORKS, {}),
        ("cpu", {"wants_cpu": 0.99, "cpus_used": 0.6}, WORKS, {}),  # a neighbour has the rest: the workers still want it
        ("cpu", {"wants_cpu": 0.99}, None, {}),
        ("cpu", {"workers": 8, "wants_cpu": 0.6, "waits_for_cpu": 0.45}, WORKS, {"one_worker_per_s": 380.0}),  # in order
        ("collate", {"wants_cpu": 0.99}, {**WORKS, "collate_s": 0.006}, {}),
        ("cpu", {"wants_cpu": 0.99}, {**WORKS, "read_s": 0.05, "collate_s": 0.004}, {}),
        ("ipc", {"wants_cpu": 0.99}, WORKS, {"delivering_s": 0.01}),  # 10 ms to deliver what takes 5 ms to read
        ("cpu", {"wants_cpu": 0.99}, WORKS, {"delivering_s": 0.0002}),
        ("ipc", {"main_cpus": 0.95, "main_wants": 0.97}, WORKS, {}),
        ("ipc", {"main_cpus": 0.4, "main_wants": 0.97}, WORKS, {}),  # a neighbour has the rest
        ("latency", {"main_cpus": 0.2, "main_wants": 0.9}, SLEEPS, {"one_worker_per_s": 100.0}),  # and this one wants little
        ("cpu", {"main_wants": 0.95, "wants_cpu": 0.9}, WORKS, {}),
        ("latency", {}, SLEEPS, {"one_worker_per_s": 100.0}),  # 4 workers, 4 times as fast
        ("latency", {"workers": 1}, SLEEPS, {"one_worker_per_s": 400.0}),
        ("lock", {}, SLEEPS, {"one_worker_per_s": 380.0}),  # 4 workers, as fast as one
        ("lock", {"wants_cpu": 0.26}, WORKS, {"one_worker_per_s": 380.0}),  # who holds it computes
        ("network", {"received_bytes": 5e4}, REMOTE, {"one_worker_per_s": 100.0}),
        ("network", {"received_bytes": 5e4}, REMOTE, {"one_worker_per_s": 380.0}),  # a link that is full
        ("latency", {"received_bytes": 5e4}, {**SLEEPS, "received_bytes": 0.0}, {}),  # a neighbour's download
        ("latency", {"received_bytes": 5e4}, REMOTE, {"one_worker_per_s": 100.0, "received_bytes": 9.0}),  # the same at any rate
        ("latency", {"received_bytes": 20.0}, REMOTE, {"one_worker_per_s": 100.0}),  # somebody's heartbeat
        ("disk", {"waits_for_disk": 0.8}, SLEEPS, {"one_worker_per_s": 380.0}),
        ("disk", {"stored_bytes": 1e5}, {**SLEEPS, "again_s": 0.001}, {}),
        ("latency", {"stored_bytes": 1e5}, {**SLEEPS, "again_s": 0.005}, {"one_worker_per_s": 100.0}),  # it is not the disk
        ("quota", {"throttled": 0.4, "wants_cpu": 0.9}, WORKS, {}),
        ("cpu", {"throttled": 0.01, "wants_cpu": 0.9}, WORKS, {}),
        ("straggler", {}, SLEEPS, {"order_gain": 1.4}),
        ("straggler", {}, {**SLEEPS, "typical_s": 0.04, "slow_s": 0.4}, {"one_worker_per_s": 200.0}),  # by the look of it
        ("latency", {}, SLEEPS, {"order_gain": 1.02, "one_worker_per_s": 100.0}),
        ("startup", {"startup_s": 9.0, "loading_s": 3.0}, WORKS, {}),
        ("cpu", {"startup_s": 9.0, "loading_s": 3.0, "wants_cpu": 0.9}, WORKS, {"persistent": True}),  # once, not each epoch
        ("gpu", {}, WORKS, {"demand_per_s": 410.0}),
        ("latency", {}, SLEEPS, {"demand_per_s": 900.0, "one_worker_per_s": 100.0}),
        ("gpu", {"waits_for_batches": 0.02}, WORKS, {"demand_per_s": 600.0}),  # each batch was there when it was wanted
        ("gpu", {"waits_for_batches": 0.08}, WORKS, {"demand_per_s": 430.0}),  # and taking it over took the rest
        ("cpu", {"waits_for_batches": 0.2, "wants_cpu": 0.9}, WORKS, {"demand_per_s": 500.0}),
        ("latency", {"workers": 16}, SLEEPS, {"demand_per_s": 480.0, "one_worker_per_s": 150.0, "order_gain": None}),
        ("host", {}, WORKS, {"demand_per_s": 410.0, "host_bound": True}),
        ("unknown", {}, SLEEPS, {"one_worker_per_s": 380.0, "parts": 2}),  # two of four have nothing to read
        ("lock", {}, SLEEPS, {"one_worker_per_s": 380.0, "parts": 4}),
        ("unknown", {"wants_cpu": None}, WORKS, {}),  # a kernel without schedstat
        ("cpu", {"workers": 0, "wants_cpu": None}, WORKS, {}),  # in the main process: by what samples cost
        ("latency", {"workers": 0, "wants_cpu": None}, SLEEPS, {}),
        ("collate", {}, {**SLEEPS, "collate_s": 0.02}, {"one_worker_per_s": 100.0}),  # it waits there
        ("collate", {"workers": 0, "wants_cpu": None}, {**WORKS, "collate_s": 0.01}, {}),
        ("unknown", {"workers": 0, "wants_cpu": None}, None, {}),
    ],
)
def test_names(name: str, evidence: dict[str, Any], costs: dict[str, Any] | None, known: dict[str, Any]) -> None:
    assert named(evidence, costs, **known) == name

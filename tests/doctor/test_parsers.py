"""Parsers give a value or raise Malformed, whatever text they get; and what they print back is what they read."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dl_doctor.facts.cgroups import parse_membership
from dl_doctor.facts.cpu_budget import cpus_of, parse_cpu_max, request_of_weight
from dl_doctor.facts.host import parse_hypervisor, parse_os_release
from dl_doctor.facts.memory_budget import parse_limit, parse_meminfo
from dl_doctor.facts.mounts import Mounts, parse_mountinfo
from dl_doctor.facts.shared_memory import parse_maps
from dl_doctor.facts.slurm import parse_tasks_per_node
from dl_doctor.saved import BadReport, parse_report
from dl_doctor.text import Malformed, integer, key_values, mount_points, parse_cpu_list, place_in, shortened
from dl_doctor.units import binary_size, ordinal, parse_duration, parse_size, round_up

LINES = st.one_of(
    st.text(),
    st.text("0123456789 -:,/()xmaxkBabc\n\t\\"),
    st.lists(st.from_regex(r"\A[0-9]+ [0-9]+ [0-9]+:[0-9]+ /[a-z/]* /[a-z/\\0-9]* rw - [a-z0-9]+ [a-z]* rw\Z")).map("\n".join),
    st.lists(st.from_regex(r"\A[0-9]{1,2}:[a-z,=]*:/[a-z./]*\Z")).map("\n".join),
)

PARSERS: list[Callable[[str], Any]] = [
    integer,
    key_values,
    parse_cpu_list,
    parse_cpu_max,
    parse_hypervisor,
    parse_limit,
    parse_maps,
    parse_meminfo,
    parse_membership,
    parse_mountinfo,
    parse_os_release,
    lambda text: parse_tasks_per_node(text, 1),
]


@pytest.mark.parametrize("parse", PARSERS)
@given(LINES)
@example("")
@example("9" * 5000)
@example("0-4294967296")
@example("١٢")
@example("1_000")
def test_any_text_gives_a_value_or_malformed(parse: Callable[[str], Any], text: str) -> None:
    try:
        parse(text)
    except Malformed as error:
        assert len(str(error)) < 1000


@given(LINES, st.text("/abc."))
def test_any_mount_table_can_be_asked(text: str, path: str) -> None:
    try:
        mounts = Mounts(parse_mountinfo(text))
    except Malformed:
        return
    found = mounts.containing(f"/{path}")

    assert found is None or found in mounts.entries


@given(st.binary())
@example(b'{"format_version": "1.0"}')
@example(b'{"format_version": "2.0"}')
@example(b"[" * 100)
@example(b'{"format_version": NaN}')
def test_any_bytes_are_a_report_or_a_clear_error(content: bytes) -> None:
    with pytest.raises(BadReport, match=r"^x\.json "):
        parse_report(content, "x.json")


@given(st.text())
@example("1e400")
@example("9" * 400)
@example("24 MiB")
def test_any_text_is_a_size_or_a_value_error(text: str) -> None:
    try:
        assert parse_size(text) >= 0
    except ValueError as error:
        assert "24MiB" in str(error)  # it says what to write instead


@given(st.integers(-1, 10**12), st.integers(-1, 10**7))
def test_a_quota_is_a_positive_number_or_none_or_malformed(quota: int, period: int) -> None:
    try:
        cpus = cpus_of(quota, period)
    except Malformed:
        return

    assert cpus is None or cpus > 0


@given(st.sets(st.integers(0, 300)))
def test_cpu_lists_are_read_as_the_kernel_writes_them(cpus: set[int]) -> None:
    """Both as single numbers and as ranges."""
    assert parse_cpu_list(",".join(map(str, sorted(cpus)))) == cpus
    assert parse_cpu_list("0-299\n") == set(range(300))


@given(st.integers(1, 1 << 50))
def test_rounding_up(size: int) -> None:
    rounded = round_up(size)

    assert size <= rounded < max(2 * size, size + (1 << 30))
    assert rounded.bit_count() == 1 or rounded % (1 << 30) == 0


@given(st.integers(1, 1 << 40))
def test_short_sizes_are_exact(size: int) -> None:
    """What docker is told is what was meant."""
    assert parse_size(binary_size(size, short=True)) == size


@pytest.mark.parametrize(
    ("text", "size"),
    [("24MiB", 24 << 20), ("64m", 64 << 20), ("1g", 1 << 30), ("1.5GiB", 3 << 29), ("24MB", 24_000_000), (" 4096 ", 4096)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (64 << 20, "64 MiB"), (35861299, "34.2 MiB"), (3 << 29, "1.5 GiB")],
)
def test_sizes_in_words(size: int, text: str) -> None:
    assert binary_size(size) == text


@pytest.mark.parametrize(
    ("text", "cpus"), [("50000 100000\n", 0.5), ("max 100000\n", None), ("200000 100000\n", 2.0), ("133333 100000", 1.33333)]
)
def test_cpu_max(text: str, cpus: float | None) -> None:
    assert parse_cpu_max(text) == cpus


@pytest.mark.parametrize(
    ("weight", "low", "high"),
    [
        (1, 0.002, 0.002),  # no request
        (39, 0.298, 0.98),  # one CPU by the linear formula
        (100, 1.0, 2.54),  # one CPU by the logarithmic one
    ],
)
def test_requests_from_weights(weight: int, low: float, high: float) -> None:
    assert request_of_weight(weight) == pytest.approx((low, high), rel=0.03)


@pytest.mark.parametrize(
    ("text", "node", "tasks"), [("8", 0, 8), ("8(x2),4", 1, 8), ("8(x2),4", 2, 4), ("8(x2),4", 3, None), ("1(x999999999)", 7, 1)]
)
def test_tasks_per_node(text: str, node: int, tasks: int | None) -> None:
    assert parse_tasks_per_node(text, node) == tasks


@pytest.mark.parametrize(
    ("table", "points"),
    [
        (b"", set()),
        (b"1 2 0:3 / /dev/shm rw - tmpfs shm rw\n4 1 0:5 / /a\\040b\\134\xff rw - ext4 c rw\n", {b"/dev/shm", b"/a b\\\xff"}),
        (b"no mount table\n\n", set()),
    ],
)
def test_mount_points(table: bytes, points: set[bytes]) -> None:
    assert mount_points(table) == points


def test_a_mount_hides_what_lies_below_it() -> None:
    """/dev/shm twice, then /dev over both: what is seen at /dev/shm is the last one's folder."""
    table = (
        "1 0 8:1 / / rw - ext4 /dev/a rw\n"
        "2 1 0:5 / /dev rw - devtmpfs dev rw\n"
        "3 2 0:6 / /dev/shm rw - tmpfs small rw\n"
        "4 3 0:7 / /dev/shm rw - tmpfs large rw\n"
        "6 1 0:9 / /a\\040b rw,shared:1 master:2 - tmpfs \\134xff rw\n"
    )
    covered = table + "5 2 0:8 / /dev rw - tmpfs over rw\n"

    def seen(text: str, path: str) -> str | None:
        mount = Mounts(parse_mountinfo(text)).containing(path)
        return mount and mount.source

    assert seen(table, "/dev/shm") == "large"
    assert seen(table, "/dev/shm/torch_1") == "large"
    assert seen(covered, "/dev/shm") == "over"
    assert seen(table, "/a b/c") == "\\xff"
    assert seen(table, "/a") == "/dev/a"


@pytest.mark.parametrize(("text", "seconds"), [("35ms", 0.035), ("0.2s", 0.2), ("150us", 0.00015), ("2s", 2.0), (" 1 S ", 1.0)])
def test_times(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "0", "35", "0ms", "-1s", "1h", "nan", "1e3", "35 m s"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="write it like 35ms"):
        parse_duration(text)


OURS = '  File "/x/doctor/probes/batches.py", line 3, in samples\n'
JOBS = '  File "/job/my data.py", line 30, in __getitem__\n    return open(path)\n'
PACKAGES = '  File "/venv/lib/python3.11/site-packages/PIL/Image.py", line 9, in open\n'


@pytest.mark.parametrize(
    ("trace", "place"),
    [
        (OURS + JOBS, "/job/my data.py:30"),
        (OURS + JOBS + PACKAGES, "/job/my data.py:30"),  # the package was asked for something that it cannot do
        (OURS + PACKAGES, "/venv/lib/python3.11/site-packages/PIL/Image.py:9"),
        ("ValueError: no traceback", None),
    ],
)
def test_the_line_of_the_jobs_own_code(trace: str, place: str | None) -> None:
    assert place_in(trace) == place


@given(st.text(max_size=2000))
def test_what_is_shortened_says_how_much_is_left_out(text: str) -> None:
    told = shortened(text)

    assert told == text or (len(told) < 450 and text.startswith(told[:250]) and text.endswith(told[-150:]))


@pytest.mark.parametrize(
    ("number", "told"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (13, "13th"), (21, "21st"), (112, "112th")]
)
def test_ordinals(number: int, told: str) -> None:
    assert ordinal(number) == told

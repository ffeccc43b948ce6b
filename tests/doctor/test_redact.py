"""What is shared holds no name and no secret, and says the same."""

import json
import posixpath
import string
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dl_doctor import catalogue, cli
from dl_doctor.engine import examine
from dl_doctor.facts.environment import ALLOWED
from dl_doctor.identity import machine_digest
from dl_doctor.model import Identity, Redaction, Report
from dl_doctor.probes.shortening import beginning, ending
from dl_doctor.redact import MOST_NAMES, Redactor, redact, redact_text, texts_of
from dl_doctor.reports import FORMATS, renderer
from dl_doctor.reports.look import Look
from dl_doctor.settings import Settings
from dl_doctor.shapes import SECRET_NAME, SHAPES
from dl_doctor.system import System
from tests.recorded import NAMES, examine_recorded, read

CATALOGUE = catalogue.load(plugins=False)

IDENTITY = Identity(
    hostnames=("node17.acme.org", "node17"),
    users=("alice", "max", "bo", "rené"),
    homes=("/net/homes/alice",),
    ips=("10.0.0.5", "fd00:0000:0000:0000:0000:0000:0000:0002"),
    macs=("02:fc:00:00:00:01",),
    gpus=("GPU-5a3f9c1e-1111-2222-3333-444455556666", "GPU-5b3f9c1e-1111-2222-3333-444455556667"),
    servers=("nfs01.acme.org", "10.0.0.9"),
)


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ("on node17, NODE17.ACME.ORG", "on host-1, host-1.domain-1"),
        ("nfs01.acme.org:/export", "server-1.domain-1:/export"),
        ("/net/homes/alice/data", "/net/homes/user-1/data"),
        ("alice_2 xalicex", "user-1_2 xuser-1x"),
        ("alice2", "user-1_2"),  # and not user-12
        ("/home/alice/x /home/bob/x, /home/bob.", "/home/user-1/x /home/user-5/x, /home/user-5."),
        ("%2Fhome%2Fbob%2Fx", "%2Fhome%2Fuser-5%2Fx"),
        (r"/Users/carol C:\Users\carol\x", r"/Users/user-5 C:\Users\user-5\x"),
        ("/home/ubuntu/x /root", "/home/ubuntu/x /root"),  # they are called so everywhere
        ("/home/user-7/x user-1 alice", "/home/user-7/x user-1 user-2"),  # a pseudonym that was there is given to nobody
        # a word of ours, and somebody's name: only below a folder it is a name
        ("/scratch/max/data '/scratch/max'", "/scratch/user-2/data '/scratch/user-2'"),
        ("cpu.max /max/x /sys/fs/cgroup/max/x max", "cpu.max /max/x /sys/fs/cgroup/max/x max"),
        ("/scratch/maxim", "/scratch/maxim"),
        # a short name: a whole word, in whatever it stands
        ("/data/bo/x %2Fbo%2F \\nbo body bo-x", "/data/user-3/x %2Fuser-3%2F \\nuser-3 body user-3-x"),
        ("rené RENÉ ren%C3%A9 ren\\u00e9 ren\\xe9 rene\u0301", "user-4 user-4 user-4 user-4 user-4 user-4"),
        ("10.0.0.5 10-0-0-5 8.8.8.8, 8.8.8.8:53", "ip-1 ip-1 ip-3, ip-3:53"),
        ("10.0.0.9:/export", "ip-3:/export"),
        # names of files; and one's own address, whatever it stands in
        ("worker_10.1.1.1.log node_10.1.1.2, x-10.1.1.3.tar 10.1.1.4_1", "worker_ip-3.log node_ip-4, x-ip-5.tar ip-6_1"),
        ("ip10.0.0.5x 110.0.0.5 10.0.0.55", "ipip-1x ip-3 ip-4"),
        ("v1.2.3.4 x-1.2.3.4.dev1 1.2.3.4-1.2.3.4.post1 1.2.3.4.5", "v1.2.3.4 x-1.2.3.4.dev1 ip-3-1.2.3.4.post1 1.2.3.4.5"),
        ("nvidia_cudnn_cu12-9.1.0.70-py3.whl cudnn-9.1.0.70.tar", "nvidia_cudnn_cu12-9.1.0.70-py3.whl cudnn-9.1.0.70.tar"),
        ("127.0.0.1 0.0.0.0 255.255.255.0 ::1", "127.0.0.1 0.0.0.0 255.255.255.0 ::1"),
        ("cudnn==9.1.0.70 nvidia-cudnn-cu12 9.1.0.70", "cudnn==9.1.0.70 nvidia-cudnn-cu12 9.1.0.70"),
        ("libcudnn.so.9.1.0.70", "libcudnn.so.9.1.0.70"),
        ("fd00::2 [fe80::fc:ff:fe00:1]:80", "ip-2 [ip-3]:80"),
        ("c10::cuda at::Tensor x[::2] 12:30:45 0::/a std::move", "c10::cuda at::Tensor x[::2] 12:30:45 0::/a std::move"),
        ("02:fc:00:00:00:01 02FC00000001 aa-bb-cc-dd-ee-ff", "mac-1 mac-1 mac-2"),
        ("00:00:00:00:00:00 0000:07:00.0", "00:00:00:00:00:00 0000:07:00.0"),  # of no one, and a place on the bus
        ("GPU-5A3F9C1E-1111-2222-3333-444455556666,GPU-5a3f GPU-5b", "GPU-nr001,GPU-nr001 GPU-nr002"),
        ("GPU-5", "GPU-nr"),  # could be both, as before
        ("gpu-5a3f9c1e-1111-2222-3333-444455556666 gpu-5", "gpu-nr001 gpu-5"),  # in small letters a node's name looks so
        ("GPU-fed GPU-bound MIG-00000000-1111-2222-3333-444455556666", "GPU-fed GPU-bound MIG-nr003"),
        ("5a3f9c1e-1111-2222-3333-444455556666", "nr001"),
        ("postgres://u:p@x@db.x.org:54/y tcp://node18:29500", "postgres://secret-1@server-2:54/y tcp://server-3:29500"),
        ("https://git.x.org/y http://nfs01.acme.org/z", "https://server-2/y http://server-1.domain-1/z"),
        # everyone's, one's own, and none
        (
            "https://github.com/x https://download.pytorch.org:443 http://localhost:80 http://127.0.0.1/x s3://bucket/x file://x/y",
            "https://github.com/x https://download.pytorch.org:443 http://localhost:80 http://127.0.0.1/x s3://bucket/x file://x/y",
        ),
        ("alice@acme.org, b.b+x@uni-x.ac.uk.", "mail-1, mail-2."),
    ],
)  # fmt: skip
def test_names(text: str, shared: str) -> None:
    assert redact_text(text, [IDENTITY]) == shared


TOKENS = {
    "private key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7\n-----END RSA PRIVATE KEY-----",
    "a key's end": "MIIEpAIBAAKCAQEA7\n-----END PRIVATE KEY-----",
    "URL": "https://{alice:hunter2}@example.org/x",
    "GitHub": "ghp_{0123456789abcdefghijABCDEFGHIJ012345}",
    "GitHub, one use": "github_pat_{11ABCDEFG0abcdefghijkl_0123456789}",
    "GitLab": "glpat-{abcdefghijklmnopqrst}",
    "Hugging Face": "hf_{abcdefghijklmnopqrstABCDEFGHIJ0123}",
    "OpenAI, Anthropic": "sk-{ant-api03-abcdefghijklmnopqrst}",
    "AWS": "AKIA{IOSFODNN7EXAMPLE}",
    "Groq": "gsk_{abcdefghijklmnopqrstABCDEFGHIJ0123}",
    "Replicate": "r8_{abcdefghijklmnopqrstABCDEFGHIJ0123456}",
    "LangSmith": "lsv2_pt_{0123456789abcdef0123456789abcdef_0123456789}",
    "Databricks": "dapi{0123456789abcdef0123456789abcdef}-2",
    "Docker Hub": "dckr_pat_{abcdefghij-klmnopqrst_ABCDE}",
    "npm": "npm_{abcdefghijklmnopqrstABCDEFGHIJ012345}",
    "Stripe": "sk_live_{abcdefghij0123456789} rk_live_{abcdefghij01234567}",
    "Slack": "xoxb-{123456789012-abcdefghijkl}",
    "Slack's webhook": "https://hooks.slack.com/services/{T00000000/B00000000/abcdefghijklmnopqrstuvwx}",
    "Discord's webhook": "https://discord.com/api/webhooks/123456789012345678/{abcdefghijklm-nopqrst_ABCDEFGHIJ}",
    "Google": "AIza{abcdefghijklmnopqrstABCDEFGHIJ01234}",
    "Google's OAuth": "ya29.{a0Abcdefghijklmnop-qrst_ABCDE}",
    "NGC": "nvapi-{abcdefghijklmnopqrst_ABCDEFGHIJ}",
    "PyPI": "pypi-{AgEIcHlwaS5vcmcCJDAwMDAwMDAwLTAwMDAtMDAwMC0wMDAwLTAw}",
    "JWT": "eyJhbGciOiJIUzI1NiJ9.{eyJzdWIiOiIxIn0.abc_-def}",
    "Neptune": "eyJhcGlfYWRkcmVzcyI6Imh0dHBzOi8vYX{BwLm5lcHR1bmUuYWkifQ}==",
    "bearer": "Authorization: Bearer {abc.def-123456}",
    "authorization": "'Authorization': 'Basic {YWxpY2U6cHc}='; Authorization: Token {Zq81}; authorization={abcdef1234}",
    "cookie": "Cookie: session={abc}; csrf={def}",
    "W&B": "{0123456789abcdef0123456789abcdef01234567}",
    "W&B, long": "wandb_v1_{abcdefghij_KLMNOPQRSTUVWXYZ}",
    "signed": "https://b.example.org/k?X-Amz-Credential={AKIB/2/us}&X-Amz-Signature={deadbeef01}&sig={ab%2Bc%3D}&se=2",
    "variable": "WANDB_API_KEY={abcdef} AWS_SECRET_ACCESS_KEY={wJalrXUtnFEMI/K7MDENG} 'DB_PASS': '{pw}' HF_TOKEN = {abc}",
    "password": """password="{hunter2!}" password = {pw} clientSecret="{two words}" dbpassword: str = '{hunter}'""",
    "token": """{"api_key": "{abcdef123}"} token={abcdefgh} AccountKey={Eby8+/==}; accessToken: '{abcdef}'""",
    "line of a password": "x:\n  db:\n    user: x\n    password: {hunter}\n  - my-secret: {pa,ss)word}\n",
    "line of a token": "x:\n    api_key: {Zq81hunter3}\nX-Auth-Token: {abcdefgh} \nHF_TOKEN: {abcdefgh}\nX-Any-Key: {abcdefgh}\n",
    "option of a password": "run.py --db_password {hunter} ['--secret', '{hunter3}'] --client-secret={hunter4}",
    "option of a token": "run.py --hub-token {abcdefgh} --wandb_key {abcdefgi} ['--hf_token', '{abcdefgj}'] --api-key={abcdefgk}",
    "like a token": "the password: {hunter2}, pwd={hunter3} wandbKey={hunter45} ('x-api-key', '{hunter56}')",
}


def example_of(shape: Any) -> tuple[str, list[str]]:
    """A text with such secrets, and those."""
    example = TOKENS[shape.name]
    parts = example.replace('{"', '"').replace('}"}', '}"').replace("{", "\0").replace("}", "\0").split("\0")
    return "".join(parts), parts[1::2] or ["MIIEpAIBAAKCAQEA7"]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_secrets(shape: Any) -> None:
    example, secrets = example_of(shape)
    text = redact_text(f"before {example} after", [])

    assert [secret for secret in secrets if secret in text] == []
    assert text.endswith(" after")
    assert "secret-1" in text


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.name != "a key's end"], ids=lambda shape: shape.name)
def test_what_was_cut_holds_no_piece_of_a_secret(shape: Any) -> None:
    """Wherever the cut is. A key whose begin was lost is a piece already, and told by its end."""
    example, secrets = example_of(shape)
    pieces = {secret[at : at + 6] for secret in secrets for at in range(len(secret) - 5)}
    redactor = Redactor([], [])
    text = f"before {example}\nafter it"
    cut = {cut(text, most) for cut in (beginning, ending) for most in range(len(text))}

    assert [(short, piece) for short in map(redactor.clean, cut) for piece in pieces if piece in short] == []
    assert {"before", "after it"} <= cut


def test_a_progress_bar_is_cut_between_its_states() -> None:
    assert ending("\r 10 %\r 20 %\r 30 %", 13) == " 20 %\r 30 %"


def test_people_are_shown_the_ends_of_long_texts_and_machines_all(docker: Report) -> None:
    """Redaction comes before: a piece of a secret is none."""
    told = f"{'so it was, ' * 30}token=hf_abcdefghijklmnopqrstABCDEFGHIJ0123 {'and so on, ' * 12}at last"
    failed = msgspec.structs.replace(docker.results[0], seen=told)
    report = redact(msgspec.structs.replace(docker, results=(failed,)))
    shown = renderer("text")(report, Look(detail="full"))

    assert "at last" in shown
    assert " characters ...]" in shown
    assert "J0123" not in shown
    assert report.results[0].seen.count("so it was") == 30
    assert report.results[0].seen in json.loads(renderer("json")(report, Look()))["results"][0]["seen"]


@pytest.mark.parametrize(
    "text",
    [
        "TOKENIZERS_PARALLELISM=true",
        "DataLoader(..., num_workers=0, pin_memory=True)",
        "key=lambda x: x",
        "sk-learn scikit-learn task-force",
        "tokenizers==0.19 python-secret==1.0.1 {'token': '1.2'}",
        "the key shm: 64 MiB; unexpected token: identifier expected; Credentials: none\nPASS: everything is well\npassword: None",
        "pad_token='<pad>' eos_token=\"<|endoftext|>\" image_key='pixel_values' 'sort_key': 'size'",
        "KEYS = ('a', 'b')\n    in_passwd: bool\n    password: str = None",
        "max_token=1048576 --max-token 100000 --key-file x.pem",
        "token = self.tokenizer(x); next_token = torch.argmax(x, 1); token == 'abcdefgh'; token=token, secret = os.environ['X']",
        "private_key=/etc/ssl/private/id_rsa --token /run/secrets/hf PWD=/gpfs/x1/y OLDPWD=/x1/2",
        "stopped at the token 'a'; --require gpu-visible",
        "MONKEY business: PASS",
    ],
)
def test_what_is_no_secret(text: str) -> None:
    assert redact_text(text, []) == text


def test_secrets_by_the_names_of_entries() -> None:
    """Whatever a plugin's facts are called; a package that is called so has a version."""
    entries = {"db_password": "x", "hfToken": "abc def", "WANDB_API_KEY": "y", "packages": {"pip-secret": "1.2.3"}, "keys": ["z"]}
    shared = Redactor([], []).walk(entries)

    assert shared == {**entries, "db_password": "secret-1", "hfToken": "secret-2", "WANDB_API_KEY": "secret-3"}


def test_a_host_of_a_url_is_known_without_it(docker: Report) -> None:
    """Findings tell parts of facts."""
    facts = {**docker.facts, "a_plugins": {"url": "postgres://db7.x.org/y"}}
    tool = msgspec.structs.replace(docker.tool, name="db7.x.org does not answer")

    assert redact(msgspec.structs.replace(docker, facts=facts, tool=tool)).tool.name == "server-1 does not answer"


def test_a_host_of_a_url_in_our_own_domain(docker: Report) -> None:
    """Its domain is replaced before, and says as much as that of the machine."""
    facts = {**docker.facts, "a_plugins": {"url": "postgres://db7.acme.org:5432/y"}}
    tool = msgspec.structs.replace(docker.tool, name="db7.acme.org, which is not db71.acme.org, does not answer")
    shared = redact(msgspec.structs.replace(docker, facts=facts, tool=tool, identity=IDENTITY))
    again = redact(shared)

    assert shared.facts["a_plugins"]["url"] == "postgres://server-2.domain-1:5432/y"
    assert shared.tool.name == "server-2.domain-1, which is not db71.domain-1, does not answer"
    assert again.facts["a_plugins"] == shared.facts["a_plugins"]


def test_no_variable_that_is_kept_holds_a_secret_by_its_name() -> None:
    assert [name for name in ALLOWED if SECRET_NAME.fullmatch(name)] == []


def recorded(name: str, index: int, folder: Path) -> Report:
    machine, expected = read(name)
    report = examine_recorded(machine, folder, msgspec.convert(expected["runs"][index]["settings"], Settings), CATALOGUE)
    hosts = (machine["hostname"],) if machine["hostname"] != "recorded" else ()
    users = ("alice",)
    return msgspec.structs.replace(report, identity=Identity(hostnames=hosts, users=users, ips=("10.0.0.5",)))


def judged_again(report: Report) -> Report:
    """With nothing in it that differs from run to run."""
    again = examine(CATALOGUE, Settings(), System(), report)
    results = tuple(msgspec.structs.replace(result, duration_s=0) for result in again.results)
    run = msgspec.structs.replace(again.run, id="", started_at="", duration_s=0)
    return msgspec.structs.replace(again, results=results, run=run)


def replaced(value: Any, old: str, new: str) -> Any:
    return json.loads(json.dumps(value).replace(json.dumps(old)[1:-1], json.dumps(new)[1:-1]))


RUNS = [pytest.param(name, index, id=f"{name}-{index}") for name in NAMES for index in range(len(read(name)[1]["runs"]))]


@pytest.mark.parametrize(("name", "index"), RUNS)
def test_judging_and_redacting_commute(name: str, index: int, tmp_path: Path) -> None:
    report = recorded(name, index, tmp_path)

    assert judged_again(redact(report)) == redact(judged_again(report))


@pytest.mark.parametrize(
    "user", ["data", "max", "loader", "fail", "shm", "user", "cpu-budget", "warn", "sample", "e", "100", "te"]
)
@pytest.mark.parametrize("name", ["docker-v1", "slurm-step", "gpu-two-h100"])
def test_a_name_that_is_a_word_of_ours_spoils_nothing(name: str, user: str, tmp_path: Path) -> None:
    report = msgspec.structs.replace(recorded(name, 0, tmp_path), identity=Identity(hostnames=(user,), users=(user,)))
    shared = redact(report)

    assert [(r.id, r.status, len(r.findings)) for r in shared.results] == [
        (r.id, r.status, len(r.findings)) for r in report.results
    ]
    assert judged_again(shared) == redact(judged_again(report))
    assert shared.summary == report.summary


@pytest.fixture(scope="session")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return recorded("docker-v1", 0, tmp_path_factory.mktemp("machine"))


NAME = st.text(string.ascii_letters + string.digits + "-_.é", min_size=1, max_size=12)


@settings(max_examples=40, deadline=None)
@given(hosts=st.lists(NAME, max_size=3), users=st.lists(NAME, max_size=3), data=st.data())
def test_whatever_the_names_are_judging_and_redacting_commute(
    docker: Report, hosts: list[str], users: list[str], data: Any
) -> None:
    """Where the working directory and a mount are below somebody's folder."""
    names = st.sampled_from([*hosts, *users, "x"])
    folder = f"/data/{data.draw(names)}/{data.draw(names)}"
    facts = replaced(docker.facts, "/var/lib/docker", folder)
    identity = Identity(hostnames=tuple(hosts), users=tuple(users))
    report = judged_again(msgspec.structs.replace(docker, facts=facts, identity=identity))

    assert judged_again(redact(report)) == redact(judged_again(report))


PATHS = st.lists(
    st.sampled_from(["home", "alice", "bob", "bo", "max", "data", "node17", "nfs01", "x", "a.b", "Users", "user-1"]),
    min_size=1,
    max_size=5,
)


@settings(deadline=None)
@given(PATHS, PATHS)
def test_paths_keep_their_structure(one: list[str], other: list[str]) -> None:
    """What is equal, or below the other, stays so; and what is not does not become it."""
    paths = "/" + "/".join(one), "/" + "/".join(other)
    first, second = redact_text("\n".join(paths), [IDENTITY]).split("\n")

    assert (first == second) == (paths[0] == paths[1])
    assert (posixpath.commonpath((first, second)) == first) == (posixpath.commonpath(paths) == paths[0])


def test_what_was_redacted_is_redacted_once(leaky: Report) -> None:
    once = redact(leaky)

    assert redact(once) == once


def test_two_reports_of_a_machine_join(tmp_path: Path) -> None:
    """By what only the machine's own id leads to; the id itself stands in neither."""
    machine, _ = read("docker-v1")
    ids = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
    first, second, other, none = (
        redact(examine_recorded({**machine, "files": {**machine["files"], "/etc/machine-id": text}}, tmp_path / str(index)))
        for index, text in enumerate((f"{ids[0]}\n", f"{ids[0]}\n", f"{ids[1]}\n", "uninitialized\n"))
    )

    assert first.redaction
    assert second.redaction
    assert other.redaction
    assert none.redaction == Redaction(None, none.redaction.replacements if none.redaction else 0)
    assert first.redaction.machine == second.redaction.machine != other.redaction.machine
    assert len(first.redaction.machine or "") == 64
    assert ids[0] not in renderer("json")(first, Look())


# A name or a secret in every text of a report ------------------------------------------------------------------------------

SEEDS = (
    *("node17.acme.org", "node17", "acme.org", "alice", "/net/homes/alice", "/home/bob", "10.0.0.5", "10-0-0-5", "fd00::2"),
    *("203.0.113.7", "2001:db8::7", "02:fc:00:00:00:01", "02fc00000001", "aa:bb:cc:dd:ee:ff", "nfs01.acme.org", "nfs01"),
    *(
        "GPU-5a3f9c1e-1111-2222-3333-444455556666",
        "5b3f9c1e-1111-2222-3333-444455556667",
        "rené",
        "ren%C3%A9",
        "carol@example.org",
    ),
    *("0123456789abcdef0123456789abcdef", "hunter2", "ghp_0123456789abcdefghijABCDEFGHIJ012345", "MIIEpAIBAAKCAQEA7"),
    *("hf_abcdefghijklmnopqrstABCDEFGHIJ0123", "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI", "deadbeef01"),
)
"""What must be nowhere, in whatever letters."""

CANARY = (
    " ".join(
        [
            *SEEDS[:26],
            *("https://u:hunter2@x.org/", "-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7\n-----END PRIVATE KEY-----"),
            *("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI", "https://x.org/?X-Amz-Signature=deadbeef01", *SEEDS[-5:-2]),
        ]
    )
    .replace(" hunter2 ", " ")
    .replace(" MIIEpAIBAAKCAQEA7 ", " ")
)


def full_of_names() -> Report:
    """A report with a canary in every text of every fact, finding and setting, and in the names of entries."""
    facts = {name: msgspec.to_builtins(made(msgspec.inspect.type_info(fact))) for name, fact in CATALOGUE.facts.items()}
    report = made(msgspec.inspect.type_info(Report))
    plan = made(msgspec.inspect.type_info(Settings))
    accepted = tuple(msgspec.structs.replace(one, until="2999-12-31") for one in plan.accept)
    plan = msgspec.structs.replace(plan, select=None, ignore=None, accept=accepted)
    return msgspec.structs.replace(
        report,
        format_version="1.0",
        identity=msgspec.structs.replace(IDENTITY, machine=machine_digest("0123456789abcdef0123456789abcdef")),
        facts={**facts, "a_plugins": {CANARY: {CANARY: [CANARY, {CANARY: CANARY}]}}},
        run=msgspec.structs.replace(report.run, settings=msgspec.to_builtins(plan)),
        redaction=None,
    )


def made(kind: msgspec.inspect.Type) -> Any:
    """A value of this type; of several types the one that holds the most text."""
    match kind:
        case msgspec.inspect.StructType():
            return kind.cls(**{field.name: made(field.type) for field in kind.fields})
        case msgspec.inspect.UnionType():
            return max((made(one) for one in kind.types), key=lambda value: len(list(texts_of(value))))
        case msgspec.inspect.LiteralType():
            return kind.values[0]
        case msgspec.inspect.StrType() | msgspec.inspect.AnyType():
            return CANARY
        case msgspec.inspect.BoolType():
            return True
        case msgspec.inspect.VarTupleType() | msgspec.inspect.CollectionType():
            return (made(kind.item_type),)
        case msgspec.inspect.TupleType():
            return tuple(map(made, kind.item_types))
        case msgspec.inspect.DictType():
            return {made(kind.key_type): made(kind.value_type)}
        case msgspec.inspect.NoneType():
            return None
    assert isinstance(kind, msgspec.inspect.IntType | msgspec.inspect.FloatType), kind
    return 1


def left(text: str) -> list[str]:
    small = text.lower()
    return [seed for seed in SEEDS if seed.lower() in small]


@pytest.fixture(scope="session")
def leaky() -> Report:
    return full_of_names()


def test_the_canary_is_in_every_text(leaky: Report) -> None:
    """Otherwise what follows proves little."""
    assert left(renderer("json")(leaky, Look())) == list(SEEDS)
    assert sum(CANARY in text for text in texts_of(leaky)) > 400


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("detail", ["quiet", "full"])
def test_no_format_shows_a_name_or_a_secret(leaky: Report, format_: str, detail: Any) -> None:
    shared = redact(leaky)

    assert left(renderer(format_)(shared, Look(detail=detail))) == []
    assert shared.identity == Identity()
    assert shared.redaction
    assert shared.redaction.replacements > 10_000


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("command", [("render",), ("check", "--no-plugins", "--facts")])
def test_no_command_shows_a_name_or_a_secret(
    leaky: Report, command: tuple[str, ...], format_: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "report.json").write_text(renderer("json")(leaky, Look()))
    file = tmp_path / f"x{FORMATS[format_] or '.txt'}"
    arguments = [*command, str(tmp_path / "report.json"), "--redact", "-f", format_, "-o", str(file)]
    code = cli.run([*arguments, "-o", f"{tmp_path}/folder/"])
    out, err = capfd.readouterr()

    assert code in (0, 1, 3), err
    assert "names and secrets replaced: " in err
    assert left(out + err) == []
    assert [left(f"{written.name} {written.read_text()}") for written in (file, *(tmp_path / "folder").iterdir())] == [[], []]


def test_a_bugs_log_holds_no_name_and_no_secret(
    leaky: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of the machine, and of the report that was at hand."""

    def broken(report: Report, *_: Any) -> str:
        raise RuntimeError(f"no idea what to do with {report}")

    (tmp_path / "report.json").write_text(renderer("json")(leaky, Look()))
    (tmp_path / "log").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "log"))
    monkeypatch.setattr("dl_doctor.output.print_report", broken)
    code = cli.run(["render", str(tmp_path / "report.json")])
    (log,) = (tmp_path / "log").iterdir()

    assert code == 70
    assert (left(log.read_text()), left(capfd.readouterr().err)) == ([], [])
    assert "RuntimeError: no idea what to do with Report(" in log.read_text()


def test_too_many_names_are_refused(leaky: Report, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Rather than to leave some, or to look for ever."""
    names = tuple(f"alice-{number}" for number in range(MOST_NAMES + 1))
    report = msgspec.structs.replace(leaky, identity=Identity(users=names))
    (tmp_path / "report.json").write_text(renderer("json")(report, Look()))
    code = cli.run(["render", str(tmp_path / "report.json"), "--redact"])

    assert (code, capfd.readouterr().out) == (2, "")

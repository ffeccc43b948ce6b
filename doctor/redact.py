"""A report that can be shared: names and secrets are replaced, numbers stay, and what it says stays true.

Every text is changed by one and the same function of that text, so that two that were equal are equal afterwards, a path below
another is below it afterwards, and a redacted report is judged as the report was.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import quote

import msgspec

from dl_doctor.identity import machine_digest
from dl_doctor.model import Identity, Redaction, Report
from dl_doctor.shapes import NAME, NO_HOST, PUBLIC, SECRET_NAME, SHAPES

Value = TypeVar("Value")
Swap = Callable[[re.Match[str]], str | None]
"""The pseudonym for what a pattern found; None to leave it."""

Step = tuple[tuple[str, ...], re.Pattern[str], Swap]
"""Words without any of which, in small letters, there is nothing to find; what to look for; and what to put there."""


def words(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


WELL_KNOWN = words(
    # Debian's base-passwd
    "root daemon bin sys sync games man lp mail news proxy www-data backup list nobody messagebus",
    # cloud images
    "admin administrator ubuntu debian centos rocky fedora ec2-user opc azureuser",
    # container images, hosted notebooks, services
    "user users docker podman jovyan vscode coder runner runneradmin node app appuser nonroot default dev developer test guest",
    "jenkins gitlab-runner slurm ray spark conda mambauser condauser circleci builder sagemaker-user studio-lab-user codespace",
    "gitpod kaggle colab nvidia pytorch torch localhost localdomain linuxbrew shared public",
)
"""Accounts and hosts that are called so everywhere: they identify nobody."""

HOSTNAME = ("hostname", "SLURMD_NODENAME")
"""Fields and variables that hold the name of a host, whatever it is."""

PSEUDONYM = re.compile(r"(?:host|domain|server|user|ip|mac|secret|mail|machine)-[0-9]{1,7}|nr[0-9]{3,7}")
"""What names become; `nr001` of GPUs stands behind GPU- or MIG-, and begins with no digit of a UUID."""

NEIGHBOUR = re.compile(r"(?P<own>[^:]+)(?P<domain>\.domain-[0-9]{1,7})")
"""Another host of a domain that has been replaced already."""

MOST_NAMES = 200
"""Names in `identity` that no shape tells; each is looked for in every text. A machine has about ten."""

MOST_TEXT = 8 << 20
"""Characters that are looked through, at up to 6 s for each million where they are made to hurt. A report has half a million."""

MOST_ODD_FORMS = 50
"""Of addresses, those that are also looked for inside of words, and as names of hosts have them: with hyphens, without colons."""

SECRET_LENGTH = 6
"""Shorter ones are replaced only where what stands around them shows that they are secrets."""

SHORT = 4
"""Names of fewer characters are replaced only as whole words."""

SYSTEM = ("proc", "sys", "dev", "etc", "usr", "lib", "lib64", "bin", "sbin", "boot", "run")
"""Folders of / below which nothing is named after a person."""

LONGEST_PATH = 1024

LEFT = r"(?:(?<![^\W_])|(?<=%[0-9A-Fa-f]{2})|(?<=\\[abfnrtv])|(?<=\\x[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4}))"
RIGHT = r"(?![^\W_])"
"""Bounds of a whole word, of which letters and digits are part and `_` is none; an escaped character ends one too."""

PART = r"(?<=/)", r"(?![^\s/\"'`,:;<>()\[\]{}|])"
"""Bounds of a part of a path."""

DELIMITERS = " \t\n\r\"'`,:;=<>()[]{}|"
"""A path in a text begins behind one of these."""

SLASH = r"(?:/|%2[Ff]|\\{1,4}/?)"
END = r"(?![\w-])"

HOME = re.compile(rf"{SLASH}(?:home|Users){SLASH}(?P<token>[^\s/\\%\"'`<>|:;,()\[\]{{}}=*?$&]{{0,63}}\w)")
MAIL = re.compile(r"(?<![\w.+/-])(?P<token>[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,6}[A-Za-z]{2,18})\b")
MAC = re.compile(r"(?<![0-9A-Za-z:-])(?P<token>[0-9A-Fa-f]{2}([:-])[0-9A-Fa-f]{2}(?:\2[0-9A-Fa-f]{2}){4,18})(?![0-9A-Za-z:-])")
IPV4 = re.compile(
    r"(?<![A-Za-z0-9.])(?P<token>[0-9]{1,3}(?:\.[0-9]{1,3}){3})"
    r"(?![A-Za-z0-9]|\.(?:[0-9_]|(?:a|b|rc|dev|post|so|whl|egg|dist-info|el|fc|dll|dylib|x86_64|aarch64|noarch)[0-9]*(?![A-Za-z])))"
)
"""Beside `_` and before the end of a file's name too, unless it is that of a version."""

IPV6 = re.compile(
    r"(?<![\w:.])(?P<token>(?=[0-9A-Fa-f]{0,4}:)[0-9A-Fa-f:]{2,39}(?:(?<=:)[0-9]{1,3}(?:\.[0-9]{1,3}){3})?)(?![\w:])"
)
GPU = re.compile(
    r"(?<![\w-])(?:(?:GPU|MIG)-(?:GPU-)?|(?:gpu|mig)-(?=[0-9a-fA-F]{8}-))"
    r"(?P<token>[0-9a-fA-F]{1,8}(?:-[0-9a-fA-F]{1,12}){0,4}(?:/[0-9]{1,2}/[0-9]{1,2})?)" + END
)
MACHINE_ID = re.compile(r"(?<![0-9A-Za-z])(?P<token>[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12})(?![0-9A-Za-z])")

HOST = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{1,30})://(?:[^\s/\"'<>@]{1,1024}@)?(?P<token>[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?)"
)

VERSION = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")
"""Of four parts, as cuDNN's and cuBLAS's have, and as an address looks."""

NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+)+")
"""A version of whatever is called so, such as a package."""

VERSION_BEFORE = re.compile(
    r"(?:version|==|[<>~!]=|nvidia[-_][a-z0-9_-]{2,30}|cud[an][a-z0-9_-]{0,30}[-_])[\"']?[:=]?\s{0,4}[\"']?\Z", re.IGNORECASE
)


def redact(report: Report) -> Report:
    """The report with pseudonyms in the place of names and secrets, and an empty `identity`.

    Raises:
        ValueError: it has more names than can be looked for, or more text than can be looked through.
    """
    texts = list(texts_of(report))
    if sum(map(len, texts)) > MOST_TEXT:
        raise ValueError(f"it holds more than {MOST_TEXT >> 20} million characters; a report has half a million")
    redactor = Redactor([report.identity], texts, versions_of(report.facts))
    facts = redactor.walk(report.facts)  # first: what the rest says is made of them, and numbers are given in this order
    settings = redactor.walk(report.run.settings)
    redactor.remember()
    before = report.redaction or Redaction(report.identity.machine, 0)
    run = msgspec.structs.replace(report.run, settings={})
    rest = redactor.walk(msgspec.structs.replace(report, facts={}, run=run, identity=Identity(), redaction=None))
    return msgspec.structs.replace(
        rest,
        facts=facts,
        run=msgspec.structs.replace(rest.run, settings=settings),
        redaction=Redaction(before.machine, before.replacements + redactor.count),
    )


def redact_text(text: str, identities: Iterable[Identity]) -> str:
    """A text that is no report, such as a traceback."""
    return Redactor(identities, [text]).clean(text)


class Name(NamedTuple):
    """A form of a name, in small letters, as it is looked for."""

    form: str
    pseudonym: str
    pattern: str
    part: bool
    """Only as a part of a path."""


class Redactor:
    """Replaces names and secrets, each by the same pseudonym wherever it stands.

    Args:
        identities: the names that are known.
        texts: all that is to be cleaned: a pseudonym that stands there already is given to nobody.
        versions: what looks like an address and is a version.
    """

    def __init__(self, identities: Iterable[Identity], texts: Iterable[str], versions: Iterable[str] = ()) -> None:
        identities = list(identities)
        self.count = 0
        self._taken = {found for text in texts for found in PSEUDONYM.findall(text)}
        self._versions = frozenset(versions)
        self._given: dict[tuple[str, str], str] = {}
        self._numbers: dict[str, int] = {}
        self._cleaned: dict[str, tuple[str, int]] = {}
        self._machines: set[str] = set()
        self._gpus: dict[str, str] = {}
        self._names: list[Name] = []
        for identity in identities:
            if sum(map(len, (identity.hostnames, identity.users, identity.homes, identity.gpus, identity.servers))) > MOST_NAMES:
                raise ValueError(f"it has more than {MOST_NAMES} names to replace; a machine has about ten")
            self._learn(identity)
        self._names = sorted({name.form: name for name in reversed(self._names)}.values(), key=lambda name: -len(name.form))
        digits = tuple("0123456789")
        own = tuple(ip for identity in identities for ip in identity.ips if is_ip(ip) and "." in ip)[:MOST_ODD_FORMS]
        own_ip = rf"(?<![0-9.])(?P<token>{'|'.join(map(re.escape, own))})(?![0-9]|\.[0-9])"
        self._first: list[Step] = [
            *((shape.words, shape.pattern, self._secret) for shape in SHAPES),
            (("@",), MAIL, self._mail),
            (("gpu-", "mig-"), GPU, self._gpu),
            (digits if self._machines else (), MACHINE_ID, self._machine),
        ]
        """What holds names within: it is replaced as a whole."""

        self._then: list[Step] = [
            ((":", "-"), MAC, self._mac),
            (own, re.compile(own_ip), self._ip),
            ((".",), IPV4, self._ip),
            ((":",), IPV6, self._ip),
            (("home", "users"), HOME, self._home),
            (("://",), HOST, self._host),
        ]
        self._by_form = {name.form: name for name in self._names}
        self._pattern = lru_cache(maxsize=256)(alternatives)

    def _learn(self, identity: Identity) -> None:
        self._machines |= {identity.machine} if identity.machine else set()
        for ip in identity.ips:
            self._pseudonym("ip", normal_ip(ip))
        for mac in identity.macs:
            self._pseudonym("mac", mac.replace(":", ""))
        for ip in identity.ips[:MOST_ODD_FORMS]:
            self._look_for("ip", ip.replace(".", "-"), self._pseudonym("ip", normal_ip(ip)))
        for mac in identity.macs[:MOST_ODD_FORMS]:
            self._look_for("mac", mac.replace(":", ""), self._pseudonym("mac", mac.replace(":", "")))
        for gpu in identity.gpus:
            bare = gpu.removeprefix("MIG-").removeprefix("GPU-").lower()
            self._gpus[bare] = self._pseudonym("gpu", bare)
            self._look_for("gpu", bare, self._gpus[bare])
        for kind, names in (("host", identity.hostnames), ("server", identity.servers)):
            for name in names:
                short, _, domain = ("", "", "") if is_ip(name) else name.partition(".")
                self._look_for(kind, short)
                self._look_for("domain", domain if "." in domain else "")
        for name in (*identity.users, *(home.rstrip("/").rpartition("/")[2] for home in identity.homes)):
            self._look_for("user", name)

    def _look_for(self, kind: str, name: str, pseudonym: str | None = None) -> None:
        """Take it for a name in all the forms that it has, unless it is no name."""
        telling = len(name) > 1 and (not name.isdecimal() or len(name) > SHORT)
        if not telling or name.lower() in WELL_KNOWN or PSEUDONYM.fullmatch(name):
            return
        number = pseudonym is None and not any(map(str.isalpha, name))
        pseudonym = pseudonym or self._pseudonym(kind, name)
        self._names += [Name(form, pseudonym, *bounded(form, number=number)) for form in forms(name)]

    def remember(self) -> None:
        """From now on secrets and hosts of addresses are known without what showed them: findings tell parts of facts."""
        found = [(token.lower(), kind, name) for (kind, token), name in self._given.items()]
        secrets = [(token, name) for token, kind, name in found if kind == "secret" and len(token) >= SECRET_LENGTH]
        hosts = [(token, name) for token, kind, name in found if kind == "server" and "." in token]
        for token, name in sorted((one for one in secrets if one[0] not in source()), key=by_length)[:MOST_NAMES]:
            self._by_form.setdefault(token, Name(token, name, re.escape(token), part=False))
        domains = {f".{name}": f".{token}" for (kind, token), name in self._given.items() if kind == "domain"}
        for token, name in sorted(hosts, key=by_length)[:MOST_NAMES]:
            if neighbour := NEIGHBOUR.fullmatch(token):
                token, name = neighbour["own"] + domains.get(neighbour["domain"], ""), name + neighbour["domain"]  # noqa: PLW2901
            self._by_form.setdefault(token, Name(token, name, f"{LEFT}{re.escape(token)}{RIGHT}", part=False))
        self._names = sorted(self._by_form.values(), key=lambda name: -len(name.form))
        self._cleaned.clear()

    def walk(self, value: Value, name: str = "") -> Value:
        """The same with all its texts cleaned, names of entries too; what holds none stays the same object."""
        given: Any = value
        if isinstance(given, str):
            return cast("Value", self._field(name, given))
        if isinstance(given, dict):
            return cast("Value", self._entries(given))
        if isinstance(given, list | tuple):
            items = [self.walk(item, name) for item in given]
            same = all(new is old for new, old in zip(items, given, strict=True))
            return value if same else cast("Value", type(given)(items))
        if isinstance(given, msgspec.Struct):
            fields = {field: getattr(given, field) for field in given.__struct_fields__}
            changed = {field: new for field, old in fields.items() if (new := self.walk(old, field)) is not old}
            return cast("Value", msgspec.structs.replace(given, **changed)) if changed else value
        return value

    def _entries(self, entries: dict[Any, Any]) -> dict[Any, Any]:
        cleaned: dict[Any, Any] = {}
        for key, value in entries.items():
            new = self.clean(key) if isinstance(key, str) else key
            while new in cleaned:
                new = f"{new} "  # two keys that differed in what was replaced
            cleaned[new] = self.walk(value, key if isinstance(key, str) else "")
        return cleaned

    def _field(self, name: str, text: str) -> str:
        if not text or PSEUDONYM.fullmatch(text):
            return text
        if SECRET_NAME.fullmatch(name) or (NAME.fullmatch(name) and not NUMBERS.fullmatch(text)):
            self.count += 1
            return self._pseudonym("secret", text)
        cleaned = self.clean(text)
        if name in HOSTNAME and cleaned == text and text.lower() not in WELL_KNOWN and not PSEUDONYM.search(text):
            self.count += 1
            return self._pseudonym("host", text)
        return cleaned

    def clean(self, text: str) -> str:
        if text not in self._cleaned:
            before, self.count = self.count, 0
            found = self._clean(text)
            self._cleaned[text], self.count = (found if found != text else text, self.count), before
        cleaned, count = self._cleaned[text]
        self.count += count
        return cleaned

    def _clean(self, text: str) -> str:
        small = text.lower()
        for words, pattern, pseudonym in self._first:
            if any(word in small for word in words):
                text = self._replace(pattern, text, pseudonym)
        if present := tuple(name for name in self._names if name.form in small):
            text = self._replace(self._pattern(present), text, self._name)
        for words, pattern, pseudonym in self._then:
            if any(word in small for word in words):
                text = self._replace(pattern, text, pseudonym)
        return text

    def _replace(self, pattern: re.Pattern[str], text: str, pseudonym: Swap) -> str:
        """Replace what the group `token` matches, where there is a pseudonym for it."""

        def replaced(match: re.Match[str]) -> str:
            token = match["token"]
            name = None if PSEUDONYM.fullmatch(token) else pseudonym(match)
            if name is None:
                return match[0]
            self.count += 1
            begin, end = match.start("token") - match.start(), match.end("token") - match.start()
            return match[0][:begin] + name + match[0][end:]

        return pattern.sub(replaced, text)

    def _pseudonym(self, kind: str, token: str) -> str:
        key = (kind, token if kind == "secret" else token.casefold())
        if key not in self._given:
            number = self._numbers.get(kind, 0)
            name = ""
            while not name or name in self._taken:
                number += 1
                name = f"nr{number:03}" if kind == "gpu" else f"{kind}-{number}"
            self._numbers[kind], self._given[key] = number, name
        return self._given[key]

    def _name(self, match: re.Match[str]) -> str | None:
        name = self._by_form[match["token"].lower()]
        if name.part and not below_a_folder(match.string[max(0, match.start() - LONGEST_PATH) : match.start()]):
            return None
        follows = match.string[match.end() : match.end() + 1]
        return f"{name.pseudonym}_" if follows.isdecimal() else name.pseudonym  # user-1 and a digit is no user-12

    def _secret(self, match: re.Match[str]) -> str:
        return self._pseudonym("secret", match["token"])

    def _mail(self, match: re.Match[str]) -> str:
        return self._pseudonym("mail", match["token"])

    def _gpu(self, match: re.Match[str]) -> str | None:
        """CUDA takes the beginning of a UUID for it, where only one GPU's begins so."""
        token = match["token"].lower()
        known = [pseudonym for uuid, pseudonym in self._gpus.items() if uuid.startswith(token)]
        if known:
            return known[0] if len(known) == 1 else "nr"
        return self._pseudonym("gpu", token) if len(token) == 8 or "-" in token else None

    def _machine(self, match: re.Match[str]) -> str | None:
        digest = machine_digest(match["token"].replace("-", ""))
        return self._pseudonym("machine", digest) if digest in self._machines and digest else None

    def _mac(self, match: re.Match[str]) -> str | None:
        bare = match["token"].lower().translate({ord(":"): "", ord("-"): ""})
        return None if set(bare) <= {"0"} or set(bare) <= {"f"} else self._pseudonym("mac", bare)

    def _ip(self, match: re.Match[str]) -> str | None:
        """Loopback, masks and nothing at all are no one's; and a version is no address."""
        token = match["token"]
        if not is_ip(token):
            return None
        ip = ip_address(token)
        key = ("ip", ip.compressed)
        if key in self._given:
            return self._given[key]
        version = ip.version == 4 and (
            token in self._versions or VERSION_BEFORE.search(match.string[max(0, match.start() - 50) : match.start()])
        )
        slice_of_a_list = ip.version == 6 and len(list(filter(None, token.split(":")))) < 2
        nobody = ip.is_loopback or ip.is_unspecified or token.startswith("255.")
        return None if version or slice_of_a_list or nobody else self._pseudonym(*key)

    def _host(self, match: re.Match[str]) -> str | None:
        """What our own texts link to is public as well."""
        host = match["token"].lower()
        neighbour = NEIGHBOUR.fullmatch(host)
        if neighbour and not PSEUDONYM.search(neighbour["own"]):
            return f"{self._pseudonym('server', host)}{neighbour['domain']}"
        public = f".{host}".endswith(PUBLIC) or f"://{host}/" in source()
        nobody = host in WELL_KNOWN or is_ip(host) or PSEUDONYM.search(host)
        if match["scheme"].lower() in NO_HOST or public or nobody:
            return None
        return self._pseudonym("server", host)

    def _home(self, match: re.Match[str]) -> str | None:
        token = match["token"]
        return None if token.lower() in WELL_KNOWN else self._pseudonym("user", token)


def by_length(token: tuple[str, str]) -> int:
    return -len(token[0])


def forms(name: str) -> list[str]:
    """How a name is written, in small letters: as it is, percent-encoded, in JSON, in Python, by systemd-escape(1)."""
    written = [name, quote(name, safe=""), msgspec.json.encode(name).decode()[1:-1], json_ascii(name)]
    written += [name.encode("ascii", "backslashreplace").decode(), name.replace("-", r"\x2d")]
    written += [unicodedata.normalize(form, name) for form in ("NFC", "NFD")]
    return list(dict.fromkeys(form.lower() for form in written))


def json_ascii(name: str) -> str:
    return "".join(char if char.isascii() else "".join(f"\\u{unit:04x}" for unit in utf16(char)) for char in name)


def utf16(char: str) -> tuple[int, ...]:
    units = char.encode("utf-16-be", "surrogatepass")
    return tuple(int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))


def bounded(form: str, *, number: bool) -> tuple[str, bool]:
    """The pattern for a form of a name, and whether it is replaced only as a part of a path.

    A name may be a word that we write ourselves: `data`, `max`, `sample`. As such it tells nobody, and to replace it everywhere
    would spoil what the report says; below a folder it is somebody's. So it is with a name that looks like a `number`. What
    stands inside a word of ours is a name where it is a whole word.
    """
    escaped = re.escape(form)
    ours = form in source()
    if number or (ours and re.search(f"(?<![a-z0-9]){escaped}(?![a-z0-9])", source())):
        return f"{PART[0]}{escaped}{PART[1]}", True
    if ours or len(form) < SHORT:
        return f"{LEFT}{escaped}{RIGHT}", False
    return escaped, False


def alternatives(names: tuple[Name, ...]) -> re.Pattern[str]:
    return re.compile(f"(?P<token>{'|'.join(name.pattern for name in names)})", re.IGNORECASE)


@cache
def source() -> str:
    """All that we have written, in small letters: ids, names of fields and of units, words of findings.

    What is in shapes.py are names that others gave.
    """
    specs = [find_spec(name) for name in ("dl_doctor", "dl_doctor.checks", "dl_doctor.reports")]
    folders = [Path(folder) for spec in specs if spec for folder in spec.submodule_search_locations or ()]
    files = sorted({file for folder in folders for file in folder.rglob("*.py") if file.name != "shapes.py"})
    return "\n".join(file.read_text(encoding="utf-8") for file in files).lower()


def below_a_folder(before: str) -> bool:
    """Whether what comes next is a part of a path, not the first, and not of the system's."""
    path = before[max(before.rfind(delimiter) for delimiter in DELIMITERS) + 1 :]
    first = path.lstrip("/").partition("/")[0] if path.startswith("/") else ""
    return bool(first) and first not in SYSTEM


def is_ip(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def normal_ip(text: str) -> str:
    return ip_address(text).compressed if is_ip(text) else text


def versions_of(value: object, name: str = "") -> Iterator[str]:
    """What stands for a version in facts and could be taken for an address."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from versions_of(item, name if name == "packages" else str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from versions_of(item, name)
    elif isinstance(value, str) and (name == "packages" or "version" in name) and VERSION.fullmatch(value):
        yield value


def texts_of(value: object) -> Iterator[str]:
    """All texts in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from texts_of(key)
            yield from texts_of(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts_of(item)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from texts_of(getattr(value, name))

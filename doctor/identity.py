"""The names by which somebody could tell whose machine this is: what redaction replaces.

They stand in the report's `identity` and are no facts: no check judges by them. Only files that do not hang are read, and no name
service is asked.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from dl_doctor.facts import Environment, Host, Mounts, UserIdentity
from dl_doctor.model import Identity
from dl_doctor.system import Missing, System

NAMING_USERS = ("USER", "LOGNAME", "SUDO_USER")
"""Variables that name who runs this; see su(1) and sudo(8)."""

ADDRESS = re.compile(r"([0-9.]{7,15})\n\s+/32 host LOCAL")
"""An address of this machine's own in /proc/net/fib_trie."""

LOOPBACK = ("127.", "00000000000000000000000000000001")
NO_MAC = re.compile("[0:]*")

MACHINE_ID = re.compile("[0-9a-f]{32}")
"""As machine-id(5) has it; in images there may be the word `uninitialized`, or nothing."""

SERVER = re.compile(
    r"//(?P<share>[^/:]+)/"  # CIFS: //server/share
    r"|(?P<hosts>[^/\s]+):/"  # NFS, Ceph, Lustre, sshfs: server:/path, one,two:/path, 10.0.0.1@tcp:/path, user@server:/path
)
PORT_OR_NET = re.compile(r"@(tcp|o2ib|kfi|gni)[0-9]*$|(?<=[^:]):[0-9]{1,5}$")
"""What stands behind a server's name: Lustre's network, a monitor's port."""

MAPPED = re.compile(r"(?:^|,)(?:username|user|domain)=([^,]+)")
"""Options of CIFS that name an account."""


def identity_of(system: System, known: Mapping[type, object]) -> Identity:
    """Who and where this is, by the facts that are known and a few files; what cannot be read is left out."""
    environment = environment_of(system)
    host, mounts, user, variables = (known.get(fact) for fact in (Host, Mounts, UserIdentity, Environment))
    names = [host.hostname] if isinstance(host, Host) else [text_of(system.hostname)]
    names += [variables.variables.get("SLURMD_NODENAME", "")] if isinstance(variables, Environment) else []
    entry = passwd_entry(text_of(lambda: system.read_text("/etc/passwd")), uid_of(system))
    sources = [(mount.source, mount.super_options) for mount in mounts.entries] if isinstance(mounts, Mounts) else []
    servers = [name for source, _ in sources for name in parse_servers(source)]
    homes = [entry[1], environment.get("HOME", ""), user.home if isinstance(user, UserIdentity) else ""]
    return Identity(
        hostnames=distinct(name for full in names for name in (full, full.partition(".")[0])),
        users=distinct(
            [
                entry[0],
                *(environment.get(name, "") for name in NAMING_USERS),
                *(name.rpartition("@")[0] for name in servers),
                *(name for _, options in sources for name in MAPPED.findall(options)),
            ]
        ),
        homes=distinct(home for home in homes if home.startswith("/") and home != "/"),
        ips=distinct(addresses(system)),
        macs=distinct(hardware_addresses(system)),
        gpus=distinct(uuid for fact in known.values() for uuid in uuids_of(fact)),
        servers=distinct(name.rpartition("@")[2] for name in servers),
        machine=machine_digest(text_of(lambda: system.read_text("/etc/machine-id"))),
    )


def machine_digest(machine_id: str) -> str | None:
    """HMAC-SHA256 in hexadecimal, keyed with the machine-id, over the word dl-doctor; None where there is no id.

    The id itself is not to be shown to anybody (machine-id(5)); this tells which reports are of one machine, and nothing more.
    """
    import hmac  # noqa: PLC0415 (5 ms)

    key = machine_id.strip().lower()
    return hmac.new(key.encode(), b"dl-doctor", "sha256").hexdigest() if MACHINE_ID.fullmatch(key) else None


def uuids_of(fact: object) -> Iterator[str]:
    """Of the GPUs that a fact lists, whichever it is: NVML's look, their states, their speed, or a plugin's."""
    gpus = getattr(fact, "gpus", None)
    for gpu in gpus if isinstance(gpus, tuple) else ():
        if isinstance(uuid := getattr(gpu, "uuid", None), str):
            yield uuid


def passwd_entry(text: str, uid: int | None) -> tuple[str, str]:
    """Name and home of the user with this number, by passwd(5); empty where there is no such entry."""
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) == 7 and fields[2] == str(uid):
            return fields[0], fields[5]
    return "", ""


def parse_servers(source: str) -> list[str]:
    """Servers in a mount's source, each with the user before it, if any: `user@server`; empty for a device."""
    found = SERVER.match(source)
    if found is None:
        return []
    hosts = found["share"] or found["hosts"]
    return [PORT_OR_NET.sub("", host).strip("[]") for host in re.split(r",|:(?=[^:]*@)", hosts)]


def addresses(system: System) -> Iterator[str]:
    """IP addresses of this machine's interfaces, without loopback."""
    table = text_of(lambda: system.read_text(f"{system.process}/net/fib_trie"))
    yield from (address for address in ADDRESS.findall(table) if not address.startswith(LOOPBACK))
    for line in text_of(lambda: system.read_text(f"{system.process}/net/if_inet6")).splitlines():
        digits = line.partition(" ")[0]
        if len(digits) == 32 and digits not in LOOPBACK:
            yield ":".join(digits[at : at + 4] for at in range(0, 32, 4))


def hardware_addresses(system: System) -> Iterator[str]:
    interfaces: list[str] = []
    with suppress(OSError):
        interfaces = system.listdir("/sys/class/net")
    for name in interfaces:
        address = text_of(lambda name=name: system.read_text(f"/sys/class/net/{name}/address")).strip()
        if not NO_MAC.fullmatch(address):
            yield address


def environment_of(system: System) -> Mapping[str, str]:
    try:
        return system.environment()
    except Missing:
        return {}


def uid_of(system: System) -> int | None:
    try:
        return system.uid()
    except Missing:
        return None


def text_of(read: Any) -> str:
    """What `read` gives, or nothing where it cannot."""
    try:
        text: str = read()
    except (OSError, Missing):
        return ""
    return text


def distinct(names: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, names)))

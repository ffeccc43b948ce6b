"""Shapes of secrets: what is one whoever it belongs to. A table, and no library: detect-secrets brings requests and PyYAML."""

import re
from typing import NamedTuple

SECRET_NAME = re.compile(r"(?!TOKENIZERS_PARALLELISM)[A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASS|CRED|AUTH|SIGNATURE)[A-Z0-9_]*")
"""Names of variables whose value is nobody's business. The one that is left out says whether tokenizers use threads."""


class Shape(NamedTuple):
    """A pattern whose group `token` is a secret."""

    name: str
    words: tuple[str, ...]
    """In small letters. A text without any of them holds no such secret, which is told much faster than by the pattern."""

    pattern: re.Pattern[str]
    source: str
    """Who defines or lists the form."""


def shape(name: str, words: str, pattern: str, source: str) -> Shape:
    """A row of the table. `(SECRET` in a pattern begins the group.

    Patterns begin where no word goes on, and count what they repeat, so that no text takes them long.
    """
    return Shape(name, tuple(words.split()), re.compile(pattern.replace("(SECRET", "(?P<token>"), re.DOTALL), source)


GITLEAKS = "github.com/gitleaks/gitleaks, config/gitleaks.toml"

AT_A_WORD = r"(?<![A-Za-z0-9_])"
VALUE = r"(SECRET[^\s\"'`,;&)}\]]{1,4096})"
LONG_VALUE = r"(SECRET[^\s\"'`,;&)}\]]{6,4096})"
EQUALS = r"(?:[\"']?\s{0,2}[=:]\s{0,2}[\"']|=)"
"""As in NAME=value, and as JSON and Python write it."""

END_OF_KEY = r"-----END [A-Z ]{0,40}PRIVATE KEY[^-]{0,10}-----"
IN_ADDRESSES = r"(?i:[?&](?:sig|(?:x-(?:amz|goog)-)?(?:signature|credential|security-token))=)"
VARIABLE = r"(?!TOKENIZERS_)(?=[A-Z0-9_]{0,80}(?:KEY|TOKEN|SECRET|PASS|CRED|AUTH|SIGNATURE))[A-Z0-9_]{3,80}"
ARGUMENT = (
    r"(?i:(?:[a-z0-9]{1,20}[_-]){0,4}"
    r"(?:password|passwd|passphrase|pwd|secret|token|api_?key|(?:access|secret|private)[_-]?key|credentials?))"
)
OPTION = r"(?i:--(?:[a-z0-9]{1,20}-){0,4}(?:password|passwd|secret|token|key))\s{1,4}"

SHAPES = (
    shape("private key", "private", rf"(SECRET-----BEGIN [A-Z ]{{0,40}}PRIVATE KEY.*?(?:{END_OF_KEY}|\Z))", "RFC 7468"),
    shape("a key's end", "private", rf"\A(SECRET.*{END_OF_KEY})", "RFC 7468; in a text whose beginning was cut off"),
    shape("URL", "://", r"://(SECRET[^\s/@\"'<>]{1,1024})@", "RFC 3986, userinfo"),
    shape("GitHub", "ghp_ gho_ ghu_ ghs_ ghr_", AT_A_WORD + r"(SECRETgh[pousr]_[A-Za-z0-9_]{20,255})", GITLEAKS),
    shape("GitHub, one use", "github_pat_", AT_A_WORD + r"(SECRETgithub_pat_[A-Za-z0-9_]{20,255})", GITLEAKS),
    shape("GitLab", "glpat-", AT_A_WORD + r"(SECRETglpat-[A-Za-z0-9_.-]{20,255})", GITLEAKS),
    shape("Hugging Face", "hf_ api_org_", AT_A_WORD + r"(SECRET(?:hf|api_org)_[A-Za-z0-9]{20,255})", GITLEAKS),
    shape("OpenAI, Anthropic", "sk-", AT_A_WORD + r"(SECRETsk-[A-Za-z0-9_-]{20,255})", GITLEAKS),
    shape("AWS", "akia asia abia acca", AT_A_WORD + r"(SECRET(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16})(?![A-Za-z0-9])", GITLEAKS),
    shape("Slack", "xox", AT_A_WORD + r"(SECRETxox[a-z]-[A-Za-z0-9-]{10,255})", GITLEAKS),
    shape("Google", "aiza", AT_A_WORD + r"(SECRETAIza[A-Za-z0-9_-]{35})", GITLEAKS),
    shape("NGC", "nvapi-", AT_A_WORD + r"(SECRETnvapi-[A-Za-z0-9_-]{20,255})", "docs.nvidia.com/ngc, API keys"),
    shape("PyPI", "pypi-", AT_A_WORD + r"(SECRETpypi-[A-Za-z0-9_-]{50,1024})", GITLEAKS),
    shape("JWT", "eyj", AT_A_WORD + r"(SECRETeyJ[A-Za-z0-9_-]{8,8192}(?:\.[A-Za-z0-9_-]{0,8192}){1,2})", "RFC 7519"),
    shape("bearer", "bearer", r"(?i:\bbearer\s{1,4})(SECRET[A-Za-z0-9._~+/=-]{8,8192})", "RFC 6750"),
    shape("basic", "basic", rf"(?i:authorization{EQUALS}?\W{{0,4}}basic\s{{1,4}})(SECRET[A-Za-z0-9+/=]{{4,8192}})", "RFC 7617"),
    shape("W&B", " ".join("0123456789"), r"(?<![A-Za-z0-9])(SECRET[0-9a-f]{40})(?![A-Za-z0-9])", "docs.wandb.ai; git's too"),
    shape("signed", "sig= signature= credential= security-token=", IN_ADDRESSES + VALUE, "Azure's SAS, S3, Google Storage"),
    shape("variable", "key token secret pass cred auth signature", AT_A_WORD + VARIABLE + EQUALS + VALUE, "SECRET_NAME"),
    shape("argument", "key token secret pass pwd credential", AT_A_WORD + ARGUMENT + EQUALS + LONG_VALUE, "Python, JSON, TOML"),
    shape("option", "--", r"(?<![A-Za-z0-9-])" + OPTION + r"(?!-)" + LONG_VALUE, "command lines"),
)
"""The most particular come first."""

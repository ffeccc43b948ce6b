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

TRUFFLEHOG = "github.com/trufflesecurity/trufflehog, pkg/detectors"

AT_A_WORD = r"(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f]{2})|(?<=\\[abfnrtv]))"
"""Where no word goes on; an escaped character ends one."""

END_OF_KEY = r"-----END [A-Z ]{0,40}PRIVATE KEY[^-]{0,10}-----"
IN_ADDRESSES = r"(?i:[?&](?:sig|(?:x-(?:amz|goog)-)?(?:signature|credential|security-token))=)"
SLACK = r"hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/(SECRET[A-Za-z0-9_/-]{10,255})"
DISCORD = r"discord(?:app)?\.com/api/(?:v[0-9]{1,2}/)?webhooks/(SECRET[0-9]{5,25}/[A-Za-z0-9_-]{10,255})"
COOKIE = r"[^\s=;,\"']{1,256}=[^\s;,\"'\\]{1,4096}"

# A name that means a secret, what stands between it and the value, and the value --------------------------------------------

IN_CAPITALS = r"(?!TOKENIZERS_)(?=[A-Z0-9_]{0,80}(?:KEY|TOKEN|SECRET|PASS|CRED|AUTH|SIGNATURE))[A-Z0-9_]{3,80}"
VARIABLE = r"(?:(?<![A-Za-z0-9_])|(?<=\\[abfnrtv]))" + IN_CAPITALS

NUMBERED = r"(?:_?[0-9]{1,3})?"
PASSWORD = rf"(?i:pass(?:word|wd|phrase|code)|secret|credentials?){NUMBERED}"
"""The end of a name, whatever comes before it: db_password, clientSecret, SECRET_2. Whatever its value is, it is a secret."""

KEY = r"(?:access|account|admin|api|auth|client|encryption|master|private|secret|service|shared|signing|storage)[_-]?key"
TOKEN = rf"(?i:token(?<!(?:pad|bos|eos|unk|sep|cls)_token)(?<!mask_token)|{KEY}){NUMBERED}"
"""The same of a name that other things have too: its value is a secret where it looks like none of them."""

PART = r"(?:(?<=[A-Za-z0-9][_-])|(?<=[a-z0-9])(?=[A-Z]))"
SHORT = rf"(?:{AT_A_WORD}(?i:pwd|jwt|auth)|{PART}(?i:pwd|jwt|auth|pass|key))"
"""Words that end others too (`monkey`), and names of columns (`image_key`): only a value that looks like a token is a secret."""

NAME = re.compile(rf"{SECRET_NAME.pattern}|[A-Za-z0-9_.-]{{0,80}}(?:{PASSWORD}|{TOKEN})")
"""Names of entries whose value is a secret."""

CLOSED = r"\\?[\"']?"
TYPE = r"(?:\s?:\s?[A-Za-z_][\w.|\[\]]{0,40})?"
EQUALS = rf"{CLOSED}{TYPE}\s{{0,3}}(?:=>|:=|=(?![=>]))\s{{0,3}}"
"""NAME=value, name = value, name: str = "value"."""

COLON = rf"{CLOSED}\s{{0,3}}:\s{{0,3}}"
BEFORE_A_QUOTE = r"(?=[brfu]{0,2}\\?[\"'])"
ASSIGNED = rf"(?:{EQUALS}|{COLON}{BEFORE_A_QUOTE})"
"""And as JSON and Python write it. What follows a colon may be a sentence where no quote follows."""

NEXT = r"[\"'],\s{0,20}"
"""As in lists of arguments and of headers."""

LINE = r"(?:(?m:^)|(?<=\\n))[ \t>]{0,40}(?:- )?[A-Za-z0-9_.-]{0,60}?"
"""A line of YAML or of a header, up to the last words of the name; its beginning may be an escaped one."""

AT_ITS_END = r"(?=[ \t]{0,9}(?:\Z|[\r\n#]|\\[rn]))"
OPTION = r"(?<![A-Za-z0-9-])--?[A-Za-z0-9_-]{0,60}?"
ARGUMENT = rf"(?:=|\s{{1,4}}|{NEXT}[\"'])(?!-)"

BARE = r"(?:[^\s\"'`,;&)}\]\\]|\\(?![nrt\"']))"
QUOTED = r"[brfu]{0,2}\\?(?P<quote>[\"'])"
INSIDE = r"(?:(?!(?P=quote))[^\n\\]|\\(?!(?P=quote)))"

PATH = r"~?/(?:home|root|etc|usr|opt|var|tmp|run|mnt|data|srv|scratch|workspace|Users|proc|dev)/"
NO_SECRET = (
    rf"(?!(?:None|none|null|nil|[Tt]rue|[Ff]alse|bool|bytes)\b|[(\[{{](?:[\"'\s]|\Z)|{PATH}"
    r"|(?:self|os|args|cfg|config|kwargs|settings)[.\[])"
)
"""Where a secret is kept is none, and code of a traceback holds none."""

NO_TOKEN = (
    NO_SECRET
    + rf"(?![0-9.,_]{{1,30}}(?!{BARE})|<[^\s<>]{{1,40}}>|[A-Za-z_][\w.]{{0,80}}[(\[]"
    + rf"|[a-z]{{1,30}}(?:[._][a-z]{{1,30}}){{1,6}}(?!{BARE}))"
)
"""Nor is a number, <pad>, a call, or the name of something."""

LETTER, DIGIT = (rf"(?=[^\s\"'`,;&)}}\]{kind}]{{0,40}}[{kind}])" for kind in ("A-Za-z", "0-9"))
LIKE_A_TOKEN = rf"(?!~?/){DIGIT}{LETTER}{BARE}{{6,4096}}"


def value(not_: str, shortest: int) -> str:
    """What is between quotes, with blanks in it, or what has none."""
    bare = rf"(?![brfu]{{1,2}}[\"']){BARE}{{{shortest},4096}}"
    return rf"(?:{QUOTED})?{not_}(SECRET(?(quote){INSIDE}{{{shortest},4096}}|{bare}))"


SECRET = value(NO_SECRET, 1)
LONG = value(NO_TOKEN, 6)
TO_THE_END = rf"(SECRET[^\s\"'`\\]{{4,4096}}){AT_ITS_END}"
SCHEME = r"(?:(?P<scheme>(?:[A-Z][A-Za-z0-9-]{1,30}|basic|token)[ ]{1,4}))?"
CREDENTIALS = rf"[\"']?{SCHEME}(SECRET(?(scheme){BARE}{{4,8192}}|{LIKE_A_TOKEN}))"
WORDS = "pass pwd secret credential token key auth jwt"

PUBLIC = tuple(
    f".{site}"
    for line in (
        # code and packages
        "github.com githubusercontent.com gitlab.com bitbucket.org pypi.org pythonhosted.org python.org anaconda.org conda.io",
        "npmjs.org docker.com docker.io quay.io ghcr.io gcr.io k8s.io kubernetes.io readthedocs.io debian.org ubuntu.com",
        "kernel.org apache.org w3.org json-schema.org wikipedia.org arxiv.org stackoverflow.com slack.com discord.com",
        # what trains, and what is trained on
        "pytorch.org tensorflow.org lightning.ai nvidia.com nvcr.io amd.com intel.com huggingface.co hf.co kaggle.com wandb.ai",
        "neptune.ai comet.com mlflow.org openai.com anthropic.com schedmd.com ray.io google.com googleapis.com",
        # what containers and clouds call themselves
        "docker.internal google.internal localhost",
    )
    for site in line.split()
)
"""Ends of the names of hosts that are everyone's."""

NO_HOST = ("file", "unix", "s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "wasbs", "hf", "oci", "dbfs", "docker", "containerd")
"""Schemes behind which a bucket, a path or an image stands."""

SHAPES = (
    shape("private key", "private", rf"(SECRET-----BEGIN [A-Z ]{{0,40}}PRIVATE KEY.*?(?:{END_OF_KEY}|\Z))", "RFC 7468"),
    shape("a key's end", "private", rf"\A(SECRET.*{END_OF_KEY})", "RFC 7468; in a text whose beginning was cut off"),
    shape("URL", "://", r"://(SECRET[^\s/\"'<>]{1,1024})@", "RFC 3986, userinfo; up to the last @, as clients read it"),
    shape("GitHub", "ghp_ gho_ ghu_ ghs_ ghr_", AT_A_WORD + r"(SECRETgh[pousr]_[A-Za-z0-9_]{20,255})", GITLEAKS),
    shape("GitHub, one use", "github_pat_", AT_A_WORD + r"(SECRETgithub_pat_[A-Za-z0-9_]{20,255})", GITLEAKS),
    shape("GitLab", "gl", AT_A_WORD + r"(SECRETgl(?:pat|ptt|rt|dt|cbt|oas|agent|soat|ft|imt)-[A-Za-z0-9_.-]{20,255})", GITLEAKS),
    shape("Hugging Face", "hf_ api_org_", AT_A_WORD + r"(SECRET(?:hf|api_org)_[A-Za-z0-9]{20,255})", GITLEAKS),
    shape("OpenAI, Anthropic", "sk-", AT_A_WORD + r"(SECRETsk-[A-Za-z0-9_-]{20,255})", GITLEAKS),
    shape("Groq", "gsk_", AT_A_WORD + r"(SECRETgsk_[A-Za-z0-9]{20,255})", TRUFFLEHOG),
    shape("Replicate", "r8_", AT_A_WORD + r"(SECRETr8_[A-Za-z0-9_-]{37,255})", TRUFFLEHOG),
    shape("LangSmith", "lsv2_", AT_A_WORD + r"(SECRETlsv2_(?:pt|sk)_[A-Za-z0-9_]{20,255})", TRUFFLEHOG),
    shape("Databricks", "dapi", AT_A_WORD + r"(SECRETdapi[0-9a-f]{32}(?:-[0-9]{1,2})?)", GITLEAKS),
    shape("Docker Hub", "dckr_", AT_A_WORD + r"(SECRETdckr_(?:pat|oat)_[A-Za-z0-9_-]{20,255})", TRUFFLEHOG),
    shape("npm", "npm_", AT_A_WORD + r"(SECRETnpm_[A-Za-z0-9]{36,255})", GITLEAKS),
    shape("Stripe", "k_", AT_A_WORD + r"(SECRET[sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,255})", GITLEAKS),
    shape("AWS", "akia asia abia acca", AT_A_WORD + r"(SECRET(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16})(?![A-Za-z0-9])", GITLEAKS),
    shape("Slack", "xox xapp-", AT_A_WORD + r"(SECRET(?:xox[a-z]|xapp)-[A-Za-z0-9-]{10,255})", GITLEAKS),
    shape("Slack's webhook", "hooks.slack", SLACK, GITLEAKS),
    shape("Discord's webhook", "/webhooks/", DISCORD, "discord.com/developers, Webhook Resource"),
    shape("Google", "aiza", AT_A_WORD + r"(SECRETAIza[A-Za-z0-9_-]{35})", GITLEAKS),
    shape("Google's OAuth", "ya29.", AT_A_WORD + r"(SECRETya29\.[A-Za-z0-9_-]{20,2048})", TRUFFLEHOG),
    shape("NGC", "nvapi-", AT_A_WORD + r"(SECRETnvapi-[A-Za-z0-9_-]{20,255})", "docs.nvidia.com/ngc, API keys"),
    shape("PyPI", "pypi-", AT_A_WORD + r"(SECRETpypi-[A-Za-z0-9_-]{50,1024})", GITLEAKS),
    shape("W&B", " ".join("0123456789"), r"(?<![A-Za-z0-9])(SECRET[0-9a-f]{40})(?![A-Za-z0-9])", "docs.wandb.ai; git's too"),
    shape("W&B, long", "wandb_v", AT_A_WORD + r"(SECRETwandb_v[0-9]{1,2}_[A-Za-z0-9_-]{20,255})", "docs.wandb.ai: 86 characters"),
    shape("JWT", "eyj", AT_A_WORD + r"(SECRETeyJ[A-Za-z0-9_-]{8,8192}(?:\.[A-Za-z0-9_-]{0,8192}){1,2})", "RFC 7519"),
    shape("Neptune", "eyj", AT_A_WORD + r"(SECRETeyJ[A-Za-z0-9+/_-]{40,8192}={0,2})", "docs.neptune.ai: JSON in base64"),
    shape("bearer", "bearer", r"(?i:\bbearer\s{1,4})(SECRET[A-Za-z0-9._~+/=-]{8,8192})", "RFC 6750"),
    shape("authorization", "authorization", rf"(?i:authorization)(?:{EQUALS}|{COLON}){CREDENTIALS}", "RFC 9110"),
    shape("cookie", "cookie", rf"(?i:cookie){COLON}[\"']?(SECRET{COOKIE}(?:;\s?{COOKIE}){{0,50}})", "RFC 6265"),
    shape("signed", "sig= signature= credential= security-token=", rf"{IN_ADDRESSES}(SECRET{BARE}{{1,4096}})", "Azure's SAS, S3"),
    shape("variable", WORDS + " signature", f"{VARIABLE}{ASSIGNED}{SECRET}", "SECRET_NAME"),
    shape("password", WORDS, f"{PASSWORD}{ASSIGNED}{SECRET}", "Python, JSON, TOML, ini"),
    shape("token", WORDS, f"{TOKEN}{ASSIGNED}{LONG}", "Python, JSON, TOML, ini; Azure's connection strings"),
    shape("line of a password", WORDS, f"{LINE}{PASSWORD}{COLON}{NO_SECRET}{TO_THE_END}", "YAML"),
    shape(
        "line of a token", WORDS, f"{LINE}(?!PASS)(?:{VARIABLE}|{TOKEN}|{SHORT}){COLON}{NO_TOKEN}{TO_THE_END}", "YAML, headers"
    ),
    shape("option of a password", "--", f"{OPTION}{PASSWORD}{ARGUMENT}{NO_SECRET}(SECRET{BARE}{{4,4096}})", "command lines"),
    shape("option of a token", "--", f"{OPTION}(?i:token|key|auth){ARGUMENT}{NO_TOKEN}(SECRET{BARE}{{6,4096}})", "command lines"),
    shape(
        "like a token",
        WORDS,
        rf"(?:{PASSWORD}|{TOKEN}|{SHORT})(?:{EQUALS}|{COLON}|{NEXT})[\"']?(SECRET{LIKE_A_TOKEN})",
        "whatever is left",
    ),
)
"""The most particular come first."""

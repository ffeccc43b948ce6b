"""The JSON Schema of a report, generated from the structs."""

from typing import Any

import msgspec

from dl_doctor.catalogue import Catalogue
from dl_doctor.model import Report


def schema_of(catalogue: Catalogue) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a report whose facts are those of the catalogue; other facts may be anything."""
    facts = catalogue.facts
    (report, *structs), components = msgspec.json.schema_components([Report, *facts.values()], ref_template="#/$defs/{name}")
    components["Report"]["properties"]["facts"]["properties"] = dict(zip(facts, structs, strict=True))
    for struct in components.values():
        if struct.get("type") == "object" and "properties" in struct and struct.get("title") != "Settings":
            struct["required"] = list(struct["properties"])  # a report is written whole
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **report, "$defs": components}

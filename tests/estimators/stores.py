"""What feature stores make of a document, read from what we write for them."""

import math
import re


def solr_features(definitions, document):
    """Return the features of a document that lacks what is None, as Solr's store does."""
    names = {
        "if_": lambda test, then, other: then if test else other,
        "exists": lambda value: value is not None,
        "ln": math.log,
        "sum": lambda *values: sum(value or 0.0 for value in values),
    }
    found = {name: value or 0.0 for name, value in document.items() if value != str(value)}
    for definition in definitions:
        assert definition["class"] == "org.apache.solr.ltr.feature.SolrFeature"
        assert definition["name"] not in found
        params = definition["params"]
        if "fq" in params:
            (query,) = params["fq"]
            field, value = re.fullmatch(r"\{!term f=(\w+)\}(.*)", query).groups()
            found[definition["name"]] = float(document[field] == value)
        else:
            text = params["q"].removeprefix("{!func}").replace("if(", "if_(")
            found[definition["name"]] = float(eval(text, dict(names), dict(document)))
    return found


def elasticsearch_features(definitions, document, absent=0.0):
    """Return the features of a document as Elasticsearch does, in their order.

    `absent` is the feature of a query that does not match: 0, or in newer versions NaN.
    """
    found = {
        name: absent if value is None else value
        for name, value in document.items()
        if value != str(value)
    }
    for definition in definitions["features"]:
        assert definition["params"] == []
        name, template = definition["name"], definition["template"]
        assert name not in found
        if definition["template_language"] == "derived_expression":
            when = re.fullmatch(r"(\w+ == 1) \? (\S+) : (.*)", template)
            if when:
                template = f"({when[2]}) if ({when[1]}) else ({when[3]})"
            found[name] = float(eval(template, {"ln": math.log}, dict(found)))
            continue
        assert definition["template_language"] == "mustache"
        condition = template["constant_score"]["filter"]
        if "term" in condition:
            ((field, value),) = condition["term"].items()
            is_met = document[field] == value
        else:
            (clause,) = condition["bool"]["must_not"]
            is_met = document[clause["exists"]["field"]] is None
        found[name] = template["constant_score"]["boost"] if is_met else absent
    return found


def as_documents(table):
    """Return the rows of a table as dicts, None where they have no value."""
    return [
        {name: None if value != value else value for name, value in row.items()}
        for row in table.astype(object).to_dict("records")
    ]

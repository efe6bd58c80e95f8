"""Fifty payloads in every text that people can bring, and random requests from the description of
the interface.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra 'collect' is not installed")

from noracle.collect.model import ClassSpec, Item
from noracle.collect.service import people, projects
from tests.service.web_site import Site, password_hash, running

PAYLOADS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    '"><script>alert(1)</script>',
    "'><img src=x onerror=alert(1)>",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "<iframe src=javascript:alert(1)>",
    "<a href=javascript:alert(1)>x</a>",
    "[x](javascript:alert(1))",
    '![x](x" onerror="alert(1))',
    "`<script>alert(1)</script>`",
    "**<b onclick=alert(1)>**",
    "<style>*{background:red}</style>",
    "<link rel=stylesheet href=//evil.example>",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "<base href=//evil.example>",
    "<form action=//evil.example>",
    "<input autofocus onfocus=alert(1)>",
    "<body onload=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<video><source onerror=alert(1)>",
    "<math><mi xlink:href=javascript:alert(1)>",
    "<object data=javascript:alert(1)>",
    "<embed src=javascript:alert(1)>",
    "{{7*7}}",
    "{% for x in range(9) %}",
    "${alert(1)}",
    "#{alert(1)}",
    "<%= 7*7 %>",
    '" onmouseover="alert(1)',
    "' onfocus='alert(1)",
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "<scr<script>ipt>alert(1)</script>",
    "<SCRIPT SRC=//evil.example/x.js></SCRIPT>",
    "<img/src/onerror=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<div hx-get=//evil.example hx-trigger=load>",
    "<div data-hx-on:click=alert(1)>",
    "<p hx-on::load=alert(1)>",
    "<!--><script>alert(1)</script>-->",
    "<![CDATA[<script>alert(1)</script>]]>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)",
    "<svg><animate onbegin=alert(1) attributeName=x>",
    "<marquee onstart=alert(1)>",
    "<template><script>alert(1)</script></template>",
    '<noscript><p title="</noscript><img src=x onerror=alert(1)>">',
    "%(name)s%s%n<b>",
)
_TAGS = {
    "aside",
    "dialog",
    "html",
    "head",
    "meta",
    "title",
    "link",
    "script",
    "body",
    "a",
    "header",
    "nav",
    "span",
    "form",
    "input",
    "button",
    "main",
    "h1",
    "h2",
    "section",
    "p",
    "div",
    "ol",
    "ul",
    "li",
    "img",
    "fieldset",
    "legend",
    "label",
    "kbd",
    "details",
    "summary",
    "footer",
    "select",
    "option",
    "table",
    "caption",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "progress",
    "dl",
    "dt",
    "dd",
    "code",
    "em",
    "strong",
    "br",
    "pre",
    "textarea",
    "figure",
    "figcaption",
    "svg",
    "g",
    "path",
    "rect",
    "line",
    "text",
    "desc",
    "circle",
    "polyline",
    "polygon",
    "defs",
    "tspan",
}
_LINKS = {
    "href",
    "src",
    "action",
    "formaction",
    "data",
    "xlink:href",
    "hx-get",
    "hx-post",
    "poster",
    "background",
}


class Inert(HTMLParser):
    """Collects everything in a page that could run or lead elsewhere."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self._script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        self._script = tag == "script"
        if tag not in _TAGS or (
            tag == "script" and not str(names.get("src", "")).startswith("/static/")
        ):
            self.found.append(f"<{tag}>")
        if tag == "img" and not str(names.get("src", "")).startswith("/p/"):
            self.found.append(f"<img src={names.get('src')}>")
        if tag == "meta" and "http-equiv" in names:
            self.found.append("<meta http-equiv>")
        for name, value in attrs:
            bad_name = name.startswith(("on", "data-hx")) or "hx-on" in name or name == "style"
            bad_link = name in _LINKS and not str(value).startswith(("/", "#"))
            if bad_name or bad_link or str(value).startswith("//"):
                self.found.append(f"{tag} {name}={value}")

    def handle_data(self, data: str) -> None:
        if self._script and data.strip():
            self.found.append(f"script {data[:40]}")

    def handle_endtag(self, tag: str) -> None:
        self._script = False


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running(tmp_path_factory.mktemp("texts"), changes_per_minute=100_000) as found:
        yield found


def test_there_are_fifty_payloads() -> None:
    assert len(set(PAYLOADS)) == 50


def test_the_look_for_live_parts_finds_them() -> None:
    found = 0
    for text in PAYLOADS:
        inert = Inert()
        inert.feed(f"<p>{text}</p>")
        found += bool(inert.found)
    assert found >= 30


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    "number",
    [pytest.param(n, marks=[] if n % 5 == 0 else [pytest.mark.full]) for n in range(50)],
)
def test_payloads_are_inert_wherever_they_are_stored(site: Site, number: int) -> None:
    text, slug = PAYLOADS[number], f"x{number}"

    def add(work: object, who: str) -> int:
        return people.add_person(
            work,
            email=f"{who}{number}@example.org",
            name=text,
            password_hash=password_hash(),
            now=time.time(),
        )  # type: ignore[arg-type]

    owner, rater = (
        site.store.write_now(lambda w, who=who: add(w, who)) for who in ("boss", "rater")
    )
    protocol = ("partitioned", "judge-all", "pick-wrong", "ordinary")[number % 4]
    classes = tuple(ClassSpec(name=f"{text}{k}", guideline=f"{text}\n\n- {text}") for k in range(3))
    spec = {
        "protocol": protocol,
        "classes": classes,
        "shown": 2,
        "question": f"{text} {{class}}",
        "stop_rule": text,
    }
    if number % 8 == 4:
        spec["draws"] = 2
    project = site.project(slug, owner, **spec)
    contents: list[dict[str, object]] = [
        {"text": text},
        {"markdown": f"{text}\n\n{text}"},
        {"markdown": f"*{text}* `{text}`", "options": [text, f"{text} 2", "c"]},
    ]
    site.items(project, [Item(name=f"{text}-{k}", content=contents[k % 3]) for k in range(6)])
    site.store.write_now(
        lambda w: w.run("UPDATE project SET name = :name WHERE id = :p", name=text, p=project)
    )
    token = site.token(slug, owner, "annotator", 0)
    boss = site.as_(owner)
    seen = [
        boss.get(f"/p/{slug}/setup"),
        boss.get(f"/p/{slug}/setup?preview=seal"),
        site.visitor().get(f"/join/{token}"),
    ]
    site.step(project, "seal")
    answers: dict[str, int | None] = {f"{text}-{k}": k % 3 for k in range(6)}
    site.store.write_now(
        lambda w: projects.add_system(w, project, text, answers, actor="system", now=time.time())
    )
    site.step(project, "open")
    site.join(slug, owner, rater, "annotator", *((0, 1, 2) if protocol == "partitioned" else (0,)))
    worker = site.as_(rater)
    for _ in range(3):
        asked = worker.api("POST", f"/projects/{slug}/next").json()["next"]
        if asked is None:
            break
        seen.append(worker.get(f"/p/{slug}/work"))
        value = {
            "partitioned": "no",
            "judge-all": "no|no",
            "pick-wrong": str(asked["shown"][0]),
            "ordinary": "0",
        }[protocol]
        sent = {
            "question": asked["question"],
            "key": asked["key"],
            "value": value,
            "shown_at": time.time(),
        }
        assert worker.api("POST", f"/projects/{slug}/answers", sent).status == 200
        seen.append(worker.get(f"/p/{slug}/last"))
    assert len(seen) > 4
    seen += [
        boss.get(path)
        for path in (
            "/",
            f"/p/{slug}",
            f"/p/{slug}/setup",
            f"/p/{slug}/people",
            f"/p/{slug}/audit",
            f"/p/{slug}/export",
        )
    ]
    seen.append(boss.post(f"/p/{slug}/people", {"do": text, "role": text, "days": text}))
    seen.append(boss.post("/new", {"name": text, "slug": text, "classes": text, "protocol": text}))
    boss.csrf = ""
    visitor = site.visitor()
    visitor.get("/sign-in")
    seen.append(visitor.post("/sign-in", {"email": text, "password": text}))
    for reply in seen:
        assert reply.status in (200, 401, 409, 422), reply.text[:500]
        assert reply.headers["content-type"] == "text/html; charset=utf-8"
        inert = Inert()
        inert.feed(reply.text)
        assert inert.found == [], reply.text
    for reply in (boss.api("GET", "/projects"), worker.api("POST", f"/projects/{slug}/next")):
        assert reply.headers["content-type"] == "application/json"


@pytest.mark.full
@pytest.mark.parametrize("examples", [4, pytest.param(60, marks=pytest.mark.slow)])
def test_random_requests_from_the_description_find_no_fault_of_ours(
    site: Site, examples: int
) -> None:
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is for tests")
    from hypothesis import HealthCheck, given, settings

    owner = site.person(f"random-owner-{examples}")
    project = site.project(f"random-{examples}", owner)
    site.items(project, [Item(name=f"i{k}", content={"text": "t"}) for k in range(6)])
    rater = site.person(f"random-rater-{examples}")
    site.join(f"random-{examples}", owner, rater, "annotator", 0)
    schema = schemathesis.openapi.from_dict(site.visitor().get("/api/v1/openapi.json").json())
    found: list[str] = []
    n = 0

    def send(case: Any, person: int) -> None:
        nonlocal n
        n += 1
        if "slug" in (case.path_parameters or {}) and n % 2:
            case.path_parameters["slug"] = f"random-{examples}"
        reply = case.call(
            base_url=site.url, headers={"Authorization": f"Bearer {site.session(person)}"}
        )
        if reply.status_code >= 500:
            found.append(f"{case.method} {case.formatted_path} {case.body!r}"[:500])

    quick = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    for result in schema.get_all_operations():
        for person in (owner, rater):
            _try(
                quick,
                given,
                result.ok().as_strategy(),
                lambda case, person=person: send(case, person),
            )
    assert n > 100
    assert not found, found[:3]


def _try(quick: Any, given: Any, strategy: Any, send: Callable[[Any], None]) -> None:
    @quick
    @given(case=strategy)
    def check(case: Any) -> None:
        send(case)

    check()

"""``noracle collect``: the service that collects labels so that the mathematics holds."""

from __future__ import annotations

import typer

from noracle.cli import (
    _collect_demo,
    _collect_files,
    _collect_people,
    _collect_projects,
    _collect_server,
    _collect_simulate,
)

EXAMPLE = """Example:

noracle collect demo shows the whole loop in a minute.

noracle collect init; noracle collect project abstracts --spec project.toml; noracle collect import abstracts --items items.csv;
noracle collect seal abstracts; noracle collect invite abstracts; noracle collect open abstracts; noracle collect serve"""

app = typer.Typer(
    name="collect",
    help="Collect labels: pre-committed routes, honest intervals while answers come in, an export that proves itself.",
    epilog=EXAMPLE,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _command, _example in (
    ("serve", _collect_server.serve, _collect_server.SERVE_EXAMPLE),
    ("init", _collect_server.init, _collect_server.INIT_EXAMPLE),
    ("project", _collect_projects.project, _collect_projects.PROJECT_EXAMPLE),
    ("import", _collect_files.import_, _collect_files.IMPORT_EXAMPLE),
    ("seal", _collect_projects.seal, _collect_projects.SEAL_EXAMPLE),
    ("open", _collect_projects.open_, _collect_projects.OPEN_EXAMPLE),
    ("close", _collect_projects.close, _collect_projects.CLOSE_EXAMPLE),
    ("invite", _collect_people.invite, _collect_people.INVITE_EXAMPLE),
    ("export", _collect_files.export, _collect_files.EXPORT_EXAMPLE),
    ("backup", _collect_server.backup, _collect_server.BACKUP_EXAMPLE),
    ("restore", _collect_server.restore, _collect_server.RESTORE_EXAMPLE),
    ("simulate", _collect_simulate.simulate, _collect_simulate.SIMULATE_EXAMPLE),
    ("demo", _collect_demo.demo, _collect_demo.DEMO_EXAMPLE),
    ("forget", _collect_people.forget, _collect_people.FORGET_EXAMPLE),
):
    app.command(_name, epilog=_example)(_command)

"""The service that collects labels so that the mathematics holds (extra ``collect``).

model.py                     the records: projects, items, questions, answers, events
sealing.py, protocols.py     everything random, drawn once from a committed seed
chain.py, archive.py, verify.py   hash-chained events, the export, and its proof offline
store/                       SQLite or PostgreSQL: tables, migrations, the transactions that must be fast
service/                     what people may do: accounts, invitations, projects, answers
live.py                      estimates and checks of a running project, through the library's own estimators
web/                         pages and the JSON interface
formats.py, client.py, simulate.py   files in and out; simulated specialists over HTTP
"""

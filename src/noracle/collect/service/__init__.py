"""What people may do, as plain functions of a transaction
(:class:`noracle.collect.store.base.Work`).

access.py        who asks, and what their role allows; throttling
people.py        accounts, sessions, forgetting; with passwords.py and invitations.py
projects.py      draft → sealed → open → closed: specification, systems, progress; with items.py
answers.py       which values are answers; answers as rows of evidence
exports.py       the archive and the tables of evidence
"""

"""What people may do, as plain functions of a transaction (:class:`noracle.collect.store.base.Work`).

access.py     who asks, and what their role allows; throttling
people.py     accounts, sessions, invitations, forgetting
projects.py   draft → sealed → open → closed: specification, items, systems, progress
answers.py    which values are answers; answers as rows of evidence
exports.py    the archive and the tables of evidence
"""

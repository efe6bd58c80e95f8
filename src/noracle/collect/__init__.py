"""The service that collects labels so that the mathematics holds (extra ``collect``).

``model`` has the records, ``protocols`` draws everything random once from a committed seed,
``chain``, ``archive`` and ``verify`` prove it, ``store`` keeps it, ``service`` says what people may
do, ``live`` estimates while a project runs, and ``web`` has the pages and the JSON interface.
"""

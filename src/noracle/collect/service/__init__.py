"""What people may do, as functions of a transaction (:class:`noracle.collect.store.base.Work`)."""

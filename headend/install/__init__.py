"""The data folder of an installation: its contents, locks and certificates, and `headend doctor`.

Read `installation` and `locks` first. `doctor` returns the `findings` that the command prints.
"""

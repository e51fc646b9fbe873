"""How an engine confines itself before it reads untrusted media.

`rlimits` bounds memory, CPU time and descriptors and ties the engine to its parent; `seccomp`
denies network, processes, changes to files and every other system call that `system_calls` does not
allow; `landlock` hides files. `transcode.engine.main` applies them. Synchronous, and dependent on
the operating system alone.
"""

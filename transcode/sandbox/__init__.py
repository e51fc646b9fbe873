"""How an engine confines itself before it reads untrusted media.

`rlimits` bounds memory, CPU time and descriptors and ties the engine to its parent; `seccomp`
denies network, processes and changes to files; `landlock` hides files. `transcode.engine.main`
applies them. Synchronous, and dependent on the operating system alone.
"""

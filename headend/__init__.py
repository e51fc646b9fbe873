"""The composition root: the command line, the roles of a process, their settings and their HTTP.

Only this package knows the concrete parts of all others. Start with `cli` and `run`, then
`roles.wiring`, which assembles each role. `config` holds settings and sockets, `http` the server,
`install` the data folder, its locks, its certificates and `headend doctor`, `hosts` what several
hosts of one catalog need, `duties` what a process does beside its role, by `supervision`. `logs`,
`backup_commands`,
`recent_log`, `security_log`, `printable`, `systemd`, `welcome`, `console_link` and `demo` serve the
operator; `command` is the installed script, `own_command` how texts name it.
"""

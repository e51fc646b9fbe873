"""What a process does in the background, beside its role.

`command_executor` executes the commands that API processes send to the one that runs ingest;
`media_remover` and `project_remover` remove what was deleted; `condition_watch` looks after the
machine.
"""

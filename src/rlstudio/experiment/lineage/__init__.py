"""Where a run comes from: command, code, versions, host, with secrets masked."""

"""The user of the operating system who runs this process."""

import getpass


def os_user() -> str:
    """Return the user's name, or "" if the system has none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""

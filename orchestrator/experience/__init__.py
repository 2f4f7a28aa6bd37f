"""What a tenant's finished tasks teach: remembered exactly, and read for every new one."""

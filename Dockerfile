# The controller's image: a virtual environment built from the lock files, on a slim base, without pip, for a user without rights.
# Pin the base by digest where builds must repeat: --build-arg PYTHON_IMAGE=python@sha256:...
ARG PYTHON_IMAGE=python:3.11-slim-bookworm
# Lock files, one or several: requirements-aws.lock has what asks AWS too (--data-plane alb=aws:REGION), requirements-google.lock
# what keys of Google's service accounts are used with, requirements-stats.lock scipy for comparisons by Mann-Whitney, 216 MiB with numpy.
ARG REQUIREMENTS=requirements.lock

FROM ${PYTHON_IMAGE} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
ARG REQUIREMENTS
WORKDIR /src
RUN python -m venv --without-pip /opt/rollouts && python -m venv /opt/builder
COPY requirements.lock requirements-aws.lock requirements-google.lock requirements-stats.lock requirements-build.lock ./
RUN python -m pip --python /opt/rollouts/bin/python install --require-hashes --only-binary :all: \
    $(printf -- '-r %s ' ${REQUIREMENTS})
RUN /opt/builder/bin/python -m pip install --require-hashes --only-binary :all: -r requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY crds ./crds
COPY rollouts ./rollouts
RUN /opt/builder/bin/python -m pip wheel --no-deps --no-build-isolation --wheel-dir /wheels .
RUN python -m pip --python /opt/rollouts/bin/python install --no-deps --no-index --no-compile /wheels/rollouts_dev-*.whl
# Compiled once here: the root file system is read-only where it runs.
RUN /opt/rollouts/bin/python -m compileall -q -j 0 /opt/rollouts/lib

FROM ${PYTHON_IMAGE} AS runtime
RUN python -m pip uninstall --yes --quiet pip setuptools wheel && rm -rf /usr/local/lib/python3*/ensurepip
COPY --from=build /opt/rollouts /opt/rollouts
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="rollouts" \
      org.opencontainers.image.description="Progressive delivery for Kubernetes: the controller" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
USER 65532:65532
EXPOSE 8080 8081
# -I: neither the working directory nor the environment can add modules.
ENTRYPOINT ["/opt/rollouts/bin/python", "-I", "-m", "rollouts"]
CMD ["controller"]

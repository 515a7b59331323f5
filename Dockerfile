# The page on port 7860, or the command: see container/entrypoint.sh.
#   docker build -t gpen .                                        for CPUs
#   docker build -t gpen --build-arg DEVICE=cuda .                for NVIDIA GPUs
#   docker build -t gpen --build-arg WEIGHTS="gpen-bfr-512" .     with official weights, which are for non-commercial use
FROM debian:bookworm-slim

ARG DEVICE=cpu
COPY container/install.sh requirements.txt requirements-onnx.txt pyproject.toml README.md LICENSE /opt/gpen/src/
COPY gpen_core /opt/gpen/src/gpen_core
RUN sh /opt/gpen/src/install.sh

ARG WEIGHTS=""
RUN if [ -n "$WEIGHTS" ]; then GPEN_CACHE=/opt/gpen/weights /opt/gpen/venv/bin/gpen download $WEIGHTS; fi

COPY app.py inference_gpen.py /opt/gpen/src/
COPY page /opt/gpen/src/page
COPY examples /opt/gpen/src/examples
COPY container /opt/gpen/src/container

ENV GPEN_CACHE=/data/weights GPEN_WEIGHTS_DIR=/opt/gpen/weights
USER gpen
VOLUME /data
EXPOSE 7860
HEALTHCHECK --start-period=60s CMD ["/opt/gpen/venv/bin/python", "/opt/gpen/src/container/healthy.py"]
ENTRYPOINT ["sh", "/opt/gpen/src/container/entrypoint.sh"]

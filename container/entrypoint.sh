#!/bin/sh
# Without arguments, or with `page`, the page on port 7860; with anything else, the command:
#   docker run IMAGE -i photo.jpg -o restored.png
set -eu
cd /opt/gpen/src
case "${1-page}" in
page)
    [ $# -eq 0 ] || shift
    exec /opt/gpen/venv/bin/python app.py --host 0.0.0.0 --port 7860 "$@"
    ;;
*)
    cd /data/photos
    exec /opt/gpen/venv/bin/gpen "$@"
    ;;
esac

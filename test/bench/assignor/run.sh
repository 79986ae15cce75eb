#!/bin/bash
# Times Kafka 4.4.0's own assignors: run.sh OUTDIR [maxTasks] [sticky|ha|both]; JSON lines on stdout, inputs and outputs in OUTDIR.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
libs=${KAFKA_LIBS:-${COORDD_E2E_CACHE:-$HOME/.cache/coordd-e2e}/4.4.0} # filled by make e2e
cls=${TMPDIR:-/tmp}/bench/assignor-classes; mkdir -p "$cls"
javac -nowarn -d "$cls" -cp "$libs/*" "$here/AssignorBench.java"
# shellcheck disable=SC2086 # options are several words
exec java ${JAVA_OPTS:--Xmx4g -XX:+UseSerialGC} -Dlog4j2.configurationFile="$here/../../e2e/app/log4j2.properties" -Dlog.level=OFF ${BENCH_OPTS:-} -cp "$cls:$libs/*" AssignorBench "$@"

# Each lesson's figures.sh begins with this file, which goes to the top of the source tree. $gradsum: the program; set
# GRADSUM to use another. $here: the lesson's folder. $out: a folder for figures that the lesson's text holds already.
# $work: a folder that lasts as long as the script. wanted NAME: whether the command line names NAME, or nothing. number
# NAME: that number from the end of a run that prints JSON.
# shellcheck shell=sh disable=SC2034
cd "$(dirname "$0")" && here=lessons/$(basename "$PWD") && cd ../.. && work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
gradsum=${GRADSUM:-build/gradsum} out=build/figures/${here#lessons/} words=$*
mkdir -p "$out" || exit 1
wanted() { [ -z "$words" ] || echo " $words " | grep -q " $1 "; }
number() { grep '"event":"end"' | grep -o "\"$1\":[0-9.e+-]*" | head -1 | cut -d: -f2; }

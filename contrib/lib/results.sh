# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Counting test results: of automake's .trs files and of TAP. To be sourced. A result is a line "PASS|FAIL|SKIP NAME".

# results_of_trs DIR: the results that `make check` left in the build folder DIR. The .trs files count; what a test is called
# stands in the .log beside, in the same order.
results_of_trs() {
    local trs
    find "$1" -name '*.trs' -print0 | sort -z | while IFS= read -r -d '' trs; do
        awk -v file="${trs#"$1"/}" '
            FNR == NR {
                if (match($0, /^(PASS|FAIL|SKIP|XFAIL|XPASS|ERROR): /)) {
                    kind = substr($0, 1, RLENGTH - 2)
                    name[kind, ++named[kind]] = substr($0, RLENGTH + 1)
                }
                next
            }
            /^:test-result:/ {
                kind = $2
                text = ++used[kind] <= named[kind] ? name[kind, used[kind]] : file
                if (kind == "XFAIL") kind = "PASS"
                if (kind == "XPASS" || kind == "ERROR") kind = "FAIL"
                print kind, text
                seen = 1
            }
            END { if (!seen) print "FAIL", file, "left no result" }' "${trs%.trs}.log" "$trs"
    done
}

# results_of_tap FILE: the results in a TAP file. Tests that were planned but have no result have failed.
results_of_tap() {
    awk '
        /^1\.\.[0-9]+/ { planned = substr($1, 4) + 0; plan = 1 }
        /^ok/ { kind = /# SKIP/ ? "SKIP" : "PASS"; report(kind) }
        /^not ok/ { report("FAIL") }
        /^Bail out!/ { print "FAIL", $0 }
        function report(kind) { sub(/^(not )?ok *[0-9]* *-? */, ""); print kind, $0; done++ }
        END {
            if (!plan) print "FAIL no plan: the tests did not begin"
            else for (; done < planned; done++) print "FAIL a planned test was not run"
        }' "$1"
}

# results_count KIND FILE
results_count() { grep -c "^$1 " "$2" || true; }

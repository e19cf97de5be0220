//! Runs that are recorded and replayed.

use crate::daemon::script;
use crate::golden::{hold, scrubbed};
use crate::program::{kilter, run};

/// Changes the settings so that the agent records.
const RECORDS: &str = "printf '[record]\\nfile = \"/run/run\"\\n%s\\n' >> /run/kilter.toml";

#[test]
fn a_recorded_run_replays_the_same_also_after_a_crash_and_a_restart() {
    let said = script(&format!(
        "{RECORDS}
         cp examples/lab/*.yaml /run/site/; begin /run/log1
         netns one > /run/one; $program plan --socket /run/kilter/kilter.sock -f /run/one > /dev/null
         $program apply -f /run/one > /dev/null; ip -n router link delete right; until_true 'ip -n router link show right > /dev/null 2>&1'; $program wait > /dev/null
         $program apply -f /run/one --source other --confirm 10m > /dev/null
         $program confirm --cancel > /dev/null; $program wait > /dev/null
         kill_it; begin /run/log2; netns two > /run/two; $program apply -f /run/two > /dev/null; end
         ip netns | sort > /run/before; stat -c %a /run/run
         $program replay /run/run.1 | tail -1; $program replay /run/run | tail -1; $program replay /run/run --full > /run/full
         grep -c 'linux/netns/two' /run/full; ip netns | sort | cmp - /run/before && echo untouched"
    ));
    let expected = "code 0\n600\nevery plan is the same; the run was killed, so its end is not recorded\n\
                    every plan and the graph at the end are the same\n";
    assert!(said.starts_with(expected), "{said}");
    assert!(said.ends_with("untouched\n"), "{said}");
}

#[test]
fn a_replay_tells_the_first_difference_and_its_place() {
    let said = script(&format!(
        "{RECORDS}
         netns one > /run/site/one.yaml; begin /run/log1; netns two > /run/two; $program apply -f /run/two > /dev/null
         end > /dev/null; $program replay /run/run > /run/out; echo \"code $?\"
         line=$(grep -n 'declared-change' /run/run | tail -1 | cut -d: -f1)
         sed \"$line s/two/six/g\" /run/run > /run/other; $program replay /run/other > /run/out; echo \"code $?\"
         sed -n 's/^\\(.run.other\\):[0-9]*: the run has plan .*, the replay has plan .*/\\1 differs/p' /run/out
         grep -o 'while it looked at event .*' /run/out | sed 's/#[0-9]*/#N/'"
    ));
    assert_eq!(
        said,
        "code 0\ncode 11\n/run/other differs\nwhile it looked at event #N Declared Change [cli]\n"
    );
}

#[test]
fn what_was_cut_off_is_left_out_and_what_is_no_recording_is_refused() {
    let said = script(&format!(
        "{RECORDS}
         netns one > /run/site/one.yaml; begin /run/log1; end > /dev/null
         head -c -9 /run/run > /run/cut; $program replay /run/cut | tail -1
         echo '{{}}' >> /run/run; $program replay /run/run 2>&1 | tail -1
         (head -3 /run/cut; echo nonsense; echo more) > /run/bad; $program replay /run/bad 2>&1 | tail -1
         $program replay /run/none > /dev/null 2>&1; echo \"code $?\"; tail -1 /run/run > /run/bad
         tail -2 /run/cut > /run/bad; $program replay /run/bad > /dev/null 2>&1; echo \"code $?\""
    ));
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines[0], "every plan is the same; the last line was cut off when the run was killed",
        "{said}"
    );
    assert!(lines[1].contains("this is no line of a recording"), "{said}");
    assert!(lines[2].contains("/run/bad:4: this is no line of a recording"), "{said}");
    assert_eq!(lines[3..], ["code 8", "code 8"], "{said}");
}

#[test]
fn a_recording_that_is_as_long_as_it_may_be_ends_and_the_run_goes_on() {
    let said = script(
        "printf '[record]\\nfile = \"/run/run\"\\nbytes = 2000\\n' >> /run/kilter.toml
         netns one > /run/site/one.yaml; begin /run/log1
         i=0; while [ $i -lt 9 ]; do netns n$i > /run/doc; $program apply -f /run/doc > /dev/null; i=$((i+1)); done
         grep 'recording' /run/log1; ip netns | wc -l; end; grep -c n8 /run/run; $program replay /run/run | tail -1",
    );
    assert_eq!(
        said,
        "the recording is as long as it may be and ends here\n10\ncode 0\n0\n\
         every plan and the graph at the end are the same\n"
    );
}

#[test]
fn a_recording_that_cannot_be_made_is_told_before_anything_is_done() {
    let said = script(
        "netns one > /run/site/one.yaml
         $program agent --settings /run/kilter.toml --record /run/none/run 2>&1; echo \"code $?\"; ip netns",
    );
    assert!(said.contains("failed to make the recording `/run/none/run`"), "{said}");
    assert!(said.ends_with("code 7\n"), "{said}");
}

#[test]
fn a_run_in_a_sandbox_can_be_recorded_and_replayed_outside() {
    let folder = std::env::temp_dir().join(format!("kilter-recording-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("run").display().to_string();
    let up = run(kilter(&["up", "examples/lab", "--sandbox", "--once", "--record", &file]));
    assert_eq!(up.code, Some(0), "{up:?}");
    let replayed = run(kilter(&["replay", &file]));
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(replayed.code, Some(0), "{replayed:?}");
    // What the kernel tells meanwhile comes as it comes.
    let is_steady = |line: &&str| {
        line.starts_with("event #0 ") || !line.starts_with("event #") && !line.contains(" lines of kilter ")
    };
    let steady: String =
        replayed.stdout.lines().filter(is_steady).map(|line| format!("{}\n", scrubbed(line))).collect();
    hold("replay", &steady);
}

#[test]
fn a_secret_of_a_remote_kind_is_in_no_recording_and_the_recording_replays() {
    let said = script(&format!(
        "{RECORDS}
         printf 'kind: example.resolver\\nname: office\\nkey: {{secret: hunter2}}\\nplain: visible\\n' > /run/site/site.yaml
         begin /run/log1; sed 's/office/branch/' /run/site/site.yaml > /run/doc
         $program apply -f /run/doc > /dev/null; $program apply -f /run/doc --source other > /dev/null; end
         grep -c visible /run/run | sed 's/^[1-9][0-9]*$/recorded/'; grep -c hunter2 /run/run; $program replay /run/run | tail -1"
    ));
    let expected = "code 0\nrecorded\n0\nevery plan and the graph at the end are the same\n";
    assert_eq!(said, expected);
}

#[test]
fn an_agent_that_runs_begins_and_ends_a_recording_without_touching_the_network() {
    let said = script(&format!(
        "cp examples/lab/*.yaml /run/site/; begin /run/log1; ip -n router -o link | cut -d' ' -f1,2 > /run/before
         reload() {{ kill -HUP $agent; until_true \"test \\$(grep -c ^ready /run/log1) = $1\"; }}
         cp /run/kilter.toml /run/plain; {RECORDS}; reload 2; netns one > /run/one; $program apply -f /run/one > /dev/null
         mv /run/plain /run/kilter.toml; reload 3; netns two > /run/two; $program apply -f /run/two > /dev/null
         $program replay /run/run | tail -1; grep -c linux/netns/one /run/run | sed 's/^[1-9][0-9]*$/one/'; grep -c linux/netns/two /run/run
         ip -n router -o link | cut -d' ' -f1,2 | cmp - /run/before && echo same links; end"
    ));
    let expected = "every plan and the graph at the end are the same\none\n0\nsame links\ncode 0\n";
    assert_eq!(said, expected);
}

#[test]
fn a_verb_begins_and_ends_a_recording_of_an_agent_that_runs() {
    let said = script(
        "cp examples/lab/*.yaml /run/site/; begin /run/log1; ip -n router -o link | cut -d' ' -f1,2 > /run/before
         netns zero > /run/zero; $program apply -f /run/zero > /dev/null; $program apply -f /run/zero --source other > /dev/null
         steady() { sed 's/since .* UTC/since MOMENT/; s/, [0-9]* \\(of\\|bytes\\)/, N \\1/'; }
         $program record --show; code=0; $program record --stop 2>&1 || code=$?; echo \"code $code\"
         cd /run; $program record run | steady; $program record --show | steady; cd - > /dev/null; stat -c %a /run/run
         code=0; $program record /run/other 2>&1 || code=$?; echo \"code $code\"
         netns one > /run/one; $program apply -f /run/one > /dev/null; ip -n router link delete right; until_true 'ip -n router link show right > /dev/null 2>&1'; $program wait > /dev/null
         $program source remove other --yes > /dev/null; $program confirm --show
         $program record --stop | steady; $program record --stop -o yaml | grep stage
         netns two > /run/two; $program apply -f /run/two > /dev/null; ip netns | sort > /run/after
         $program replay /run/run | tail -1; grep -c linux/netns/zero /run/run | sed 's/^[1-9][0-9]*$/zero/'
         grep -c linux/netns/one /run/run | sed 's/^[1-9][0-9]*$/one/'; grep -c linux/netns/two /run/run || true
         code=0; $program record /run/run 2>&1 || code=$?; echo \"code $code\"
         ip netns | sort | cmp - /run/after && echo untouched; $program txn list | grep -c Declared | sed 's/^[1-9][0-9]*$/remembered/'; end",
    );
    let recorded = "recorded since MOMENT: /run/run, N of at most 268435456 bytes\n";
    let expected = format!(
        "nothing is recorded\nerror: nothing is recorded\ncode 10\n{recorded}{recorded}600\n\
         error: the run is recorded in `/run/run` already\n  hint: `kilter record --stop` ends that\ncode 7\n\
         nothing waits for a confirmation\nrecorded: /run/run, N bytes, hint: kilter replay /run/run\n  stage: ENDED\n\
         every plan and the graph at the end are the same\nzero\none\n0\n\
         error: failed to make the recording `/run/run`: File exists (os error 17)\ncode 7\nuntouched\nremembered\ncode 0\n"
    );
    assert_eq!(said, expected);
}

#[test]
fn a_recording_begins_without_a_write_and_goes_on_until_it_is_as_long_as_it_may_be() {
    let said = script(
        "cp examples/lab/*.yaml /run/site/; begin /run/log1; ip -n router -o link | cut -d' ' -f1,2 > /run/before
         $program record /run/run --bytes 1 > /dev/null; until_true \"$program record --show | grep -q 'as long as it may be'\"
         ip -n router -o link | cut -d' ' -f1,2 | cmp - /run/before && echo same links; grep -c ^txn /run/log1
         $program replay /run/run | tail -1; $program record /run/again > /dev/null; $program record --stop > /dev/null
         $program replay /run/again | tail -1; end",
    );
    let same = "every plan and the graph at the end are the same\n";
    assert_eq!(said, format!("same links\n1\n{same}{same}code 0\n"));
}

//! The daemon and the command line, and the secrets of what is declared.

use crate::daemon::script;

#[test]
fn no_log_recording_audit_record_or_answer_of_the_daemon_holds_a_secret() {
    let said = script(
        "cp /run/kilter.toml /run/plain
         doc() { printf 'kind: example.resolver\\nname: %s\\nkey: {secret: hunter2}\\nplain: visible\\n' $1; }
         for form in text json; do
           { cat /run/plain; printf '[record]\\nfile = \"/run/record-%s\"\\n[telemetry.logs]\\nlevel = \"debug\"\\nform = \"%s\"\\n' $form $form
           } > /run/kilter.toml
           doc office > /run/site/site.yaml; begin /run/log-$form; doc branch-$form > /run/doc
           { $program plan --socket /run/kilter/kilter.sock -f /run/doc; $program apply -f /run/doc
             sed 's/hunter2/hunter23/' /run/doc > /run/doc2; $program apply -f /run/doc2 --source other; $program status
             for words in 'get items -o yaml' 'get items -o json' 'explain example/resolver/office' 'txn list -o json' \
               'txn show 2' 'txn show 2 -o json' 'timeline example/resolver/branch-text' 'events list -o json' 'export --declared' \
               'graph -o dot' 'get sources'; do $program $words || echo \"failed: $words\"; done
           } > /run/told-$form 2>&1
           printf 'kind: example.resolver\\nkey: {secret: hunter2}\\nname: [\\n' > /run/site/site.yaml
           until_true \"grep -q 'cannot be used' /run/log-$form\"; end
         done
         grep -h 'failed: ' /run/told-*; grep -lr visible /run/told-* /run/record-* | sort | xargs
         grep -c '^{.*DEBUG' /run/log-json | sed 's/^[1-9].*/debug/'; grep -c ' DEBUG ' /run/log-text | sed 's/^[1-9].*/debug/'
         grep -c Apply /run/state/audit.log; grep -lr hunter /run/log-* /run/told-* /run/record-* /run/state",
    );
    let shown = "/run/record-json /run/record-text /run/told-json /run/told-text";
    // What is declared is kept where only its owner reads it; each of four changes is told when it begins and ends.
    assert_eq!(said, format!("code 0\ncode 0\n{shown}\ndebug\ndebug\n8\n/run/state/kilter.redb\n"));
}

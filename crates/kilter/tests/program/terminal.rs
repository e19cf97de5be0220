//! What only somebody at a terminal sees.

use crate::daemon::script;

#[test]
fn a_long_change_shows_its_progress_on_a_terminal_and_nowhere_else() {
    let said = script(
        "unset CI NO_COLOR CLICOLOR; begin /run/log1; export TERM=xterm
         many() { i=0; while [ $i -lt 60 ]; do netns $1$i; echo ---; i=$((i+1)); done; }
         many a > /run/one; many b > /run/two
         script -qec \"$program apply -f /run/one --yes\" /run/typed > /dev/null; tr '\\r' '\\n' < /run/typed > /run/seen
         grep -q '/60 create linux/netns/a' /run/seen && echo a bar
         grep -q '60 operations in' /run/seen && echo and the end
         $program apply -f /run/two > /run/plain 2>&1; grep -c '/60 ' /run/plain; grep -c \"$(printf '\\033')\" /run/plain
         script -qec \"$program status\" /run/typed > /dev/null; grep -q \"$(printf '\\033\\[')\" /run/typed && echo colours
         end",
    );
    assert_eq!(said, "a bar\nand the end\n0\n0\ncolours\ncode 0\n");
}

# Completion of steled for bash: the options that its help lists.
_steled()
{
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    case $before in
        --config | --data) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
        --listen | --set) COMPREPLY=() ;;
        *) mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" --help 2>/dev/null | grep -oE '^  --[a-z-]+')" -- "$current") ;;
    esac
}
complete -F _steled steled

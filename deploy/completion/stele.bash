# Completion of stele for bash. The program itself knows what may follow: stele --complete WORD...
_stele()
{
    local line candidate
    local words=("${COMP_WORDS[@]:1:COMP_CWORD}")
    # bash parts words at ':' and '=', which stand in addresses and in NAME=VALUE
    if declare -F _get_comp_words_by_ref >/dev/null; then
        local cur cword
        _get_comp_words_by_ref -n := -w words -i cword -c cur 2>/dev/null && words=("${words[@]:1:cword}")
    fi
    COMPREPLY=()
    while IFS= read -r line; do
        if [ "$line" = $'\t' ]; then
            compopt -o filenames 2>/dev/null
            while IFS= read -r candidate; do COMPREPLY+=("$candidate"); done < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
        else
            COMPREPLY+=("${line%%$'\t'*}")
        fi
    done < <("${COMP_WORDS[0]}" --complete "${words[@]}" 2>/dev/null)
}
complete -F _stele stele

--- An index finds the few rules that a request can meet, so that a thousand cost what ten do. Each rule
-- is filed under tokens, at least one of which a request must have to meet it: all of one thing that its
-- match names, such as every path. What a request meets it finds by its own tokens; each rule found is
-- then asked in full. A rule of which no token is known is asked every time. limits/index.go says the
-- same in Go.

local find, sub = string.find, string.sub
local new_table = require "table.new"
local ip = require "resty.authz.ip"
local slots = require "resty.authz.slot"
local split = require("resty.authz.path").split
local PATH, HOST = slots.PATH, slots.HOST

local _M = {}

-- Bounds the lengths of beginnings, each of which costs a request a lookup.
local LONGEST_PREFIX = 32

-- A token is something that a request has: the value of a slot ("exact"), what it begins with
-- ("prefix"), a segment of the path or a label of the host ("piece"), a prefix that the client's address
-- is in ("ip").
local function new_token(kind, slot, text)
    return {kind = kind, slot = slot, text = text, id = kind .. ":" .. slot .. ":" .. text}
end

-- The whole of a literal pattern, or what stands before the first "*" of another, or the pieces without
-- a "*": any will do.
local function tokens_of_pattern(slot, text)
    local star = find(text, "*", 1, true)
    if not star then
        return {new_token("exact", slot, text)}
    end
    local sep = slot == PATH and "/" or slot == HOST and "." or nil
    local begin, tokens = sub(text, 1, star - 1), {}
    if sep and sub(text, star, star + 1) == "**" and sub(begin, -1) == sep then
        begin = sub(begin, 1, -2) -- "/v1/**" meets "/v1"
    end
    if begin ~= "" then
        tokens[1] = new_token("prefix", slot, sub(begin, 1, LONGEST_PREFIX))
    end
    if sep then
        for _, piece in ipairs(split(text, sep, sep == "/" and 2 or 1)) do
            if not find(piece, "*", 1, true) then
                tokens[#tokens + 1] = new_token("piece", slot, piece)
            end
        end
    end
    return tokens
end

-- Each thing that a match names, as a list that has the tokens of each of its patterns; nothing that
-- has a pattern without a token.
local function offers_of(match)
    local offers = {}
    for _, f in ipairs(match.fields) do
        local offer = {}
        for i, text in ipairs(f.texts) do
            offer[i] = tokens_of_pattern(f.slot, text)
            if #offer[i] == 0 then
                offer = nil
                break
            end
        end
        offers[#offers + 1] = offer
    end
    if match.ip_texts then
        local offer = {}
        for i, text in ipairs(match.ip_texts) do
            offer[i] = {new_token("ip", 0, text)}
        end
        offers[#offers + 1] = offer
    end
    return offers
end

-- The offer whose most frequent token is the least frequent: one token a pattern. Empty when nothing
-- is on offer.
local function rarest(offers, count)
    local best, best_count = {}, math.huge
    for _, offer in ipairs(offers) do
        local tokens, most = {}, 0
        for i, choices in ipairs(offer) do
            tokens[i] = choices[1]
            for _, token in ipairs(choices) do
                if count[token.id] < count[tokens[i].id] then
                    tokens[i] = token
                end
            end
            most = math.max(most, count[tokens[i].id])
        end
        if most < best_count then
            best, best_count = tokens, most
        end
    end
    return best
end

local function new_posting()
    return {}
end

-- The lists of a slot, by token.
local function lists_of(index, slot)
    for _, lists in ipairs(index.slots) do
        if lists.slot == slot then
            return lists
        end
    end
    local lists = {slot = slot, exact = {}, prefix = {}, lengths = {}, piece = {}}
    table.insert(index.slots, lists)
    return lists
end

local function has(list, value)
    for _, v in ipairs(list) do
        if v == value then
            return true
        end
    end
    return false
end

-- The list of a token: the rules that are filed under it.
local function posting_of(index, token)
    if token.kind == "ip" then
        return ip.at_prefix(index.ip, token.text, new_posting)
    end
    local lists = lists_of(index, token.slot)
    if token.kind == "prefix" and not has(lists.lengths, #token.text) then
        table.insert(lists.lengths, #token.text)
    end
    lists.has_pieces = lists.has_pieces or token.kind == "piece"
    local by_text = lists[token.kind]
    by_text[token.text] = by_text[token.text] or new_posting()
    return by_text[token.text]
end

--- Files rules, whose matches are given in their order. pause() is called after each.
function _M.new(matches, pause)
    local index = {always = {}, slots = {}, ip = ip.new_prefixes()}
    local offers, count = {}, {}
    for i, match in ipairs(matches) do
        offers[i] = offers_of(match)
        for _, offer in ipairs(offers[i]) do
            for _, choices in ipairs(offer) do
                for _, token in ipairs(choices) do
                    count[token.id] = (count[token.id] or 0) + 1
                end
            end
        end
        pause()
    end
    for i = 1, #matches do
        local tokens = rarest(offers[i], count)
        for _, token in ipairs(tokens) do
            local posting = posting_of(index, token)
            if posting[#posting] ~= i then
                posting[#posting + 1] = i
            end
        end
        if #tokens == 0 then
            table.insert(index.always, i)
        end
        pause()
    end
    index.files_some = #index.slots + #index.ip[4].lengths + #index.ip[16].lengths > 0
    return index
end

-- Puts the rules of a posting where they belong among those that are found, which are in order.
local function add(found, posting)
    for i = 1, posting and #posting or 0 do
        local rule, count = posting[i], #found
        local at = count
        while at > 0 and found[at] > rule do
            at = at - 1
        end
        if found[at] ~= rule then
            for moved = count, at + 1, -1 do
                found[moved + 1] = found[moved]
            end
            found[at + 1] = rule
        end
    end
end

local function add_of_pieces(found, by_text, pieces)
    local seen -- a path may repeat a segment
    for i = 1, #pieces do
        local posting = by_text[pieces[i]]
        if posting and not (seen and seen[posting]) then
            seen = seen or {}
            seen[posting] = true
            add(found, posting)
        end
    end
end

local function add_of_slot(found, lists, q)
    local value = slots.value(q, lists.slot)
    if not value then
        return
    end
    add(found, lists.exact[value])
    local lengths = lists.lengths
    for i = 1, #lengths do
        add(found, lists.prefix[sub(value, 1, lengths[i])])
    end
    if lists.has_pieces then
        add_of_pieces(found, lists.piece, slots.pieces(q, lists.slot))
    end
end

--- The rules that a request may meet, by number, in order.
function _M.candidates(index, q)
    local always, asked = index.always, index.slots
    if not index.files_some then
        return always
    end
    local found = new_table(#always + 8, 0)
    for i = 1, #always do
        found[i] = always[i]
    end
    for i = 1, #asked do
        add_of_slot(found, asked[i], q)
    end
    local address = q.address
    local family = index.ip[address and #address]
    for i = 1, family and #family.lengths or 0 do
        local length = family.lengths[i]
        add(found, family.by_length[length][ip.cut(address, length)])
    end
    return found
end

return _M

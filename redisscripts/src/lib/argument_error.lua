-- What is wrong with ARGV[index], or nil when it is a whole number from low to high.
-- negative: what a minus before it stands for, where one may stand.
local function argument_error(argv, index, name, low, high, negative)
  local text = argv[index]
  local digits = string.match(text or "", negative and "^%-?(%d+)$" or "^%d+$")
  local value = tonumber(digits or "")
  -- The text of 2^53 is compared too: 2^53+1 would be read as the same double.
  if value and low <= value and value <= high and (value < 2^53 or digits == "9007199254740992") then
    return nil
  end
  local found = "is missing"
  if text then
    found = string.gsub(string.sub(text, 1, 40), "[^%w%p ]", "?")
    found = string.format(digits and "= %s" or '= "%s"', found)
  end
  local want = string.format(low == high and "%d" or "%d to %d", low, high)
  if negative then want = want .. ", or negative for " .. negative end
  return string.format("ERR ARGV[%d]: %s %s, want %s", index, name, found, want)
end

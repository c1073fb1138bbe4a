-- The greatest common divisor of two whole numbers from 1 to 2^53 (Euclid).
local function gcd(a, b)
  while b > 0 do
    a, b = b, a % b
  end
  return a
end

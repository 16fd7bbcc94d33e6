"""`kern.reduce`: the orders in which terms are read and added."""

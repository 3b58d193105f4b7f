the wen is crossed by elm bridge .

